//! An AI's opinion on a device: what it is told, condensed from the window's samples, and which of its answers is one. Who
//! it is and how it is asked is not known here.

use serde::Serialize;
use serde_json::{Value, json};

use crate::model::Point;

use super::dialect::Quantity;
use super::scored::{Rules, Scored};

/// What it says about the work on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Active,
    Idle,
    Suspicious,
}

impl Verdict {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::Suspicious => "suspicious",
        }
    }
}

/// A valid answer. Its JSON is the document's `ai_analysis`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Opinion {
    #[serde(rename = "status")]
    pub verdict: Verdict,
    /// 0 to 1.
    pub confidence: f64,
    pub reason: String,
    pub recommendation: String,
    /// 0 to 100.
    #[serde(rename = "ai_adjusted_score")]
    pub adjusted_score: Option<f64>,
}

/// Points of a curve that are told: enough to see epochs and pauses, few enough to pay for.
const POINTS: usize = 20;
/// Letters of a reason or recommendation that are kept.
const LONGEST: usize = 1000;

/// What is asked of it.
#[must_use]
pub fn instruction(language: &str) -> String {
    format!(
        "You judge whether a GPU that a Kubernetes pod holds is really used. You get its measurements over a time window as JSON: \
         means of equal pieces of the window, null where nothing was measured. Missing data is no sign of idleness. A process that \
         keeps memory allocated without computing is idle; short regular bursts of work are active; a pattern that looks like keeping \
         the GPU busy on purpose is suspicious. Answer with one JSON object and nothing else: {{\"status\": \"active\" | \"idle\" | \
         \"suspicious\", \"confidence\": 0 to 1, \"reason\": text, \"recommendation\": text, \"ai_adjusted_score\": 0 to 100}}. \
         Write reason and recommendation in the language `{language}`, one sentence each."
    )
}

/// What it is told about a device; without names when they are to be kept.
#[must_use]
pub fn question(device: &Scored, rules: &Rules, redact: bool) -> Value {
    let (namespace, pod) = device.holder();
    let score = &device.score;
    let mut series = serde_json::Map::new();
    let named = [
        ("gpu_utilization_percent", Quantity::Utilization),
        ("memory_copy_percent", Quantity::MemoryCopy),
        ("memory_used_mib", Quantity::MemoryUsed),
        ("power_watts", Quantity::Power),
        ("sm_clock_mhz", Quantity::Clock),
    ];
    for (name, quantity) in named {
        let points = device.trace.as_ref().map_or(&[][..], |trace| trace.curve(quantity));
        if !points.is_empty() {
            series.insert(name.to_owned(), condensed(points, rules));
        }
    }
    let mut told = json!({
        "model": device.reading.model,
        "window_seconds": rules.end - rules.start,
        "score": score.value.map(rounded),
        "status": score.band.word(),
        "thresholds": {"idle_below": rules.thresholds.idle, "low_below": rules.thresholds.low, "high_above": rules.thresholds.high},
        "samples": score.samples,
        "expected_samples": score.expected,
        "memory_used_percent": score.memory_used.map(rounded),
        "power_percent_of_limit": score.power.map(rounded),
        "series": series,
    });
    if !redact {
        told["namespace"] = json!(namespace);
        told["pod"] = json!(pod);
        told["node"] = json!(device.reading.node);
    }
    told
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A curve in a few numbers.
fn condensed(points: &[Point], rules: &Rules) -> Value {
    let mut values: Vec<f64> = points.iter().map(|point| point.value).collect();
    values.sort_by(f64::total_cmp);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (start, length) = (rules.start as f64 * 1000.0, (rules.end - rules.start).max(1) as f64 * 1000.0);
    let mut pieces: Vec<Vec<f64>> = vec![Vec::new(); POINTS.min(rules.expected())];
    for point in points {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place within the window")]
        let place = ((point.at as f64 - start) / length * pieces.len() as f64).max(0.0) as usize;
        let last = pieces.len() - 1;
        pieces[place.min(last)].push(point.value);
    }
    let curve: Vec<Option<f64>> = pieces.iter().map(|piece| (!piece.is_empty()).then(|| rounded(mean(piece)))).collect();
    json!({
        "mean": rounded(mean(&values)),
        "min": values[0],
        "median": values[values.len() / 2],
        "max": values[values.len() - 1],
        "curve": curve,
    })
}

/// The opinion in an answer. An error says what is wrong with it, in words that quote none of it.
pub fn read(answer: &str) -> Result<Opinion, String> {
    let text = answer.trim();
    // Some models cannot but fence what they write.
    let text = text.strip_prefix("```").map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner));
    let text = text.strip_suffix("```").unwrap_or(text).trim();
    let value: Value = serde_json::from_str(text).map_err(|_| "its answer is no JSON".to_owned())?;
    let verdict = match value["status"].as_str() {
        Some("active") => Verdict::Active,
        Some("idle") => Verdict::Idle,
        Some("suspicious") => Verdict::Suspicious,
        _ => return Err("its `status` is none of active, idle and suspicious".to_owned()),
    };
    let within = |name: &str, highest: f64| value[name].as_f64().filter(|number| (0.0..=highest).contains(number));
    let confidence = within("confidence", 1.0).ok_or("its `confidence` is no number of 0 to 1")?;
    let adjusted_score = match &value["ai_adjusted_score"] {
        Value::Null => None,
        _ => Some(within("ai_adjusted_score", 100.0).ok_or("its `ai_adjusted_score` is no number of 0 to 100")?),
    };
    let words = |name: &str| match &value[name] {
        Value::String(text) => Ok(text.chars().filter(|c| !c.is_control()).take(LONGEST).collect()),
        Value::Null => Ok(String::new()),
        _ => Err(format!("its `{name}` is no text")),
    };
    Ok(Opinion { verdict, confidence, reason: words("reason")?, recommendation: words("recommendation")?, adjusted_score })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_answer_is_an_opinion() {
        let good =
            r#"{"status": "active", "confidence": 0.92, "reason": "训练", "recommendation": "-", "ai_adjusted_score": 70.5}"#;
        let opinion = read(good).unwrap();
        assert_eq!((opinion.verdict, opinion.confidence, opinion.adjusted_score), (Verdict::Active, 0.92, Some(70.5)));
        assert_eq!(read(&format!("```json\n{good}\n```")).unwrap(), opinion);
        assert_eq!(serde_json::to_value(&opinion).unwrap(), serde_json::from_str::<Value>(good).unwrap());
        assert_eq!(read(r#"{"status":"idle","confidence":1}"#).unwrap().adjusted_score, None);
        for bad in [
            "",
            "It looks idle to me.",
            r#"{"status":"Idle","confidence":0.9}"#,
            r#"{"status":"busy","confidence":0.9}"#,
            r#"{"status":"idle"}"#,
            r#"{"status":"idle","confidence":1.2}"#,
            r#"{"status":"idle","confidence":"0.9"}"#,
            r#"{"status":"idle","confidence":0.9,"ai_adjusted_score":101}"#,
            r#"{"status":"idle","confidence":0.9,"ai_adjusted_score":-1}"#,
            r#"{"status":"idle","confidence":0.9,"reason":{}}"#,
            r#"[{"status":"idle","confidence":0.9}]"#,
            &good[..40],
            &format!("Sure! {good}"),
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_curve_is_condensed_and_its_gaps_are_told() {
        let rules =
            Rules { start: 0, end: 400, step: 10, lookback: 20, weights: Default::default(), thresholds: Default::default() };
        // Forty points, the pieces of 20 s hold two each; nothing in the fifth.
        let points: Vec<Point> = (0..40_i32)
            .filter(|index| !(8..10).contains(index))
            .map(|index| Point { at: i64::from(index) * 10_000, value: f64::from(index) })
            .collect();
        let told = condensed(&points, &rules);
        let curve: Vec<Option<f64>> = serde_json::from_value(told["curve"].clone()).unwrap();
        assert_eq!((curve.len(), curve[0], curve[1], curve[4], curve[19]), (20, Some(0.5), Some(2.5), None, Some(38.5)));
        assert_eq!((&told["min"], &told["max"]), (&json!(0.0), &json!(39.0)));
        // The sum of 0 to 39 without 8 and 9 is 763, over 38.
        assert_eq!(told["mean"], 20.08);
    }
}
