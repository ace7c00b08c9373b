//! Parses and validates an AI's opinion on a device.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// An AI's verdict on the work of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Activity {
    Active,
    Idle,
    Suspicious,
}

impl Activity {
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// An AI's opinion on a device, after validation.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Opinion {
    #[serde(rename = "status")]
    pub verdict: Activity,
    /// Confidence from 0 to 1.
    pub confidence: f64,
    pub reason: String,
    pub recommendation: String,
    /// Score from 0 to 100.
    #[serde(rename = "ai_adjusted_score")]
    pub adjusted_score: Option<f64>,
}

/// Maximum number of characters of a reason or recommendation; the rest is dropped.
const LONGEST: usize = 1000;

/// Reason why an answer is invalid. Messages do not quote the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOpinion {
    #[error("the answer is not JSON")]
    NotJson,
    #[error("`status` is not active, idle or suspicious")]
    Status,
    #[error("`{field}` is not a number from 0 to {highest}")]
    Number { field: &'static str, highest: u8 },
    #[error("`{0}` is not a string")]
    Text(&'static str),
}

/// Parses and validates an answer.
pub fn read(answer: &str) -> Result<Opinion, InvalidOpinion> {
    let text = answer.trim();
    // Some models wrap JSON in a code fence although the instruction forbids it.
    let text = text
        .strip_prefix("```")
        .map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner));
    let text = text.strip_suffix("```").unwrap_or(text).trim();
    let value: Value = serde_json::from_str(text).map_err(|_| InvalidOpinion::NotJson)?;
    let verdict = match value["status"].as_str() {
        Some("active") => Activity::Active,
        Some("idle") => Activity::Idle,
        Some("suspicious") => Activity::Suspicious,
        _ => return Err(InvalidOpinion::Status),
    };
    let within = |name: &str, highest: f64| {
        value[name]
            .as_f64()
            .filter(|number| (0.0..=highest).contains(number))
    };
    let confidence = within("confidence", 1.0).ok_or(InvalidOpinion::Number {
        field: "confidence",
        highest: 1,
    })?;
    let adjusted_score = match &value["ai_adjusted_score"] {
        Value::Null => None,
        _ => Some(
            within("ai_adjusted_score", 100.0).ok_or(InvalidOpinion::Number {
                field: "ai_adjusted_score",
                highest: 100,
            })?,
        ),
    };
    // The text may be printed on a terminal, so remove control characters.
    let words = |name: &'static str| match &value[name] {
        Value::String(text) => Ok(text
            .chars()
            .filter(|c| !c.is_control())
            .take(LONGEST)
            .collect()),
        Value::Null => Ok(String::new()),
        _ => Err(InvalidOpinion::Text(name)),
    };
    Ok(Opinion {
        verdict,
        confidence,
        reason: words("reason")?,
        recommendation: words("recommendation")?,
        adjusted_score,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_answers_are_rejected() {
        let good = r#"{"status": "active", "confidence": 0.92, "reason": "训练", "recommendation": "-", "ai_adjusted_score": 70.5}"#;
        let opinion = read(good).unwrap();
        assert_eq!(
            (opinion.verdict, opinion.confidence, opinion.adjusted_score),
            (Activity::Active, 0.92, Some(70.5))
        );
        assert_eq!(read(&format!("```json\n{good}\n```")).unwrap(), opinion);
        assert_eq!(
            serde_json::to_value(&opinion).unwrap(),
            serde_json::from_str::<Value>(good).unwrap()
        );
        assert_eq!(
            read(r#"{"status":"idle","confidence":1}"#)
                .unwrap()
                .adjusted_score,
            None
        );
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
}
