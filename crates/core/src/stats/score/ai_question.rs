//! Builds the question to an AI about a device: an instruction, and a summary of the device's
//! samples in the window.

use serde_json::{Value, json};

use super::selection::{Rules, Scored};
use crate::model::Point;
use crate::model::values::units::rounded;
use crate::stats::exporters::dialect::Quantity;

/// Number of points per curve: enough to show epochs and pauses, but few enough to limit the cost.
const POINTS: usize = 20;

/// Returns the instruction, which includes the format and language of the answer.
pub fn instruction(language: &str) -> String {
    format!(
        "You judge whether a GPU that a Kubernetes pod holds is really used. You get its measurements over a time window as JSON: \
         means of equal pieces of the window, null where nothing was measured. Missing data is no sign of idleness. A process that \
         keeps memory allocated without computing is idle; short regular bursts of work are active; a pattern that looks like keeping \
         the GPU busy on purpose is suspicious. Answer with one JSON object only: {{\"status\": \"active\" | \"idle\" | \
         \"suspicious\", \"confidence\": 0 to 1, \"reason\": text, \"recommendation\": text, \"ai_adjusted_score\": 0 to 100}}. \
         Write reason and recommendation in the language `{language}`, one sentence each."
    )
}

/// Summarizes the samples of a device. If `redact` is set, omits the names of pods and nodes.
pub fn question(device: &Scored, rules: &Rules, redact: bool) -> Value {
    let (namespace, pod) = device.holder();
    let score = &device.score;
    let mut series = serde_json::Map::new();
    let identity = [
        ("gpu_utilization_percent", Quantity::Utilization),
        ("memory_copy_percent", Quantity::MemoryCopy),
        ("memory_used_mib", Quantity::MemoryUsed),
        ("power_watts", Quantity::Power),
        ("sm_clock_mhz", Quantity::Clock),
    ];
    for (name, quantity) in identity {
        let points = device
            .trace
            .as_ref()
            .map_or(&[][..], |trace| trace.curve(quantity));
        if !points.is_empty() {
            series.insert(name.to_owned(), condensed(points, rules));
        }
    }
    let mut question = json!({
        "model": device.reading.model,
        "window_seconds": rules.end - rules.start,
        "score": score.value.map(rounded),
        "status": score.band.word(),
        "thresholds": {"idle_below": rules.thresholds.idle, "low_below": rules.thresholds.low, "high_above": rules.thresholds.high},
        "samples": score.samples,
        "expected_samples": score.expected,
        "memory_used_percent": score.memory_share.map(rounded),
        "power_percent_of_limit": score.power_share.map(rounded),
        "series": series,
    });
    if !redact {
        question["namespace"] = json!(namespace);
        question["pod"] = json!(pod);
        question["node"] = json!(device.reading.node);
    }
    question
}

/// Reduces a curve to a few numbers.
fn condensed(points: &[Point], rules: &Rules) -> Value {
    let mut values: Vec<f64> = points.iter().map(|point| point.value).collect();
    values.sort_by(f64::total_cmp);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (start, length) = (
        rules.start.millis() as f64,
        (rules.end - rules.start).max(1) as f64 * 1000.0,
    );
    let mut pieces: Vec<Vec<f64>> = vec![Vec::new(); POINTS.min(rules.expected())];
    for point in points {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place within the window"
        )]
        let place = ((point.at as f64 - start) / length * pieces.len() as f64).max(0.0) as usize;
        // A sample at the end of the window belongs to the last piece.
        let last = pieces.len() - 1;
        pieces[place.min(last)].push(point.value);
    }
    let curve: Vec<Option<f64>> = pieces
        .iter()
        .map(|piece| (!piece.is_empty()).then(|| rounded(mean(piece))))
        .collect();
    json!({
        "mean": rounded(mean(&values)),
        "min": values[0],
        "median": values[values.len() / 2],
        "max": values[values.len() - 1],
        "curve": curve,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::UnixSeconds;
    use crate::stats::score::value::{Thresholds, Weights};

    #[test]
    fn curves_are_condensed_with_gaps() {
        let rules = Rules {
            start: UnixSeconds(0),
            end: UnixSeconds(400),
            step: 10,
            lookback: 20,
            weights: Weights::default(),
            thresholds: Thresholds::default(),
        };
        // 40 points, so that each piece of 20 s contains two. The fifth piece is empty.
        let points: Vec<Point> = (0..40_i32)
            .filter(|index| !(8..10).contains(index))
            .map(|index| Point {
                at: i64::from(index) * 10_000,
                value: f64::from(index),
            })
            .collect();
        let condensed = condensed(&points, &rules);
        let curve: Vec<Option<f64>> = serde_json::from_value(condensed["curve"].clone()).unwrap();
        assert_eq!(
            (curve.len(), curve[0], curve[1], curve[4], curve[19]),
            (20, Some(0.5), Some(2.5), None, Some(38.5))
        );
        assert_eq!(
            (&condensed["min"], &condensed["max"]),
            (&json!(0.0), &json!(39.0))
        );
        // Without 8 and 9, 0 to 39 sum to 763, which is divided by 38.
        assert_eq!(condensed["mean"], 20.08);
    }
}
