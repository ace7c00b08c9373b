//! Converts a YAML tree to JSON.

use super::tree::{YamlNode, YamlValue};

fn plain_json(text: &str) -> serde_json::Value {
    match text {
        // Only these booleans exist in the core schema (YAML 1.2, section 10.3.2); `yes` and `on`
        // are text.
        "true" | "True" | "TRUE" => return true.into(),
        "false" | "False" | "FALSE" => return false.into(),
        _ => {}
    }
    // Rust also parses `nan` and `inf` as numbers, which JSON cannot represent.
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    if let Some(number) = numeric.then(|| text.parse::<i64>().ok()).flatten() {
        return number.into();
    }
    let float = numeric
        .then(|| text.parse::<f64>().ok())
        .flatten()
        .filter(|number| number.is_finite());
    float.map_or_else(|| text.into(), Into::into)
}

impl YamlNode {
    /// Converts the value to JSON, with the types of YAML's core schema.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            YamlValue::Null => serde_json::Value::Null,
            YamlValue::Scalar { text, plain: false } => text.clone().into(),
            YamlValue::Scalar { text, plain: true } => plain_json(text),
            YamlValue::List(items) => items.iter().map(Self::to_json).collect(),
            YamlValue::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}
