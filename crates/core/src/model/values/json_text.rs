//! Writes JSON that a YAML parser reads as the same value.

use serde_json::Value;

/// Serializes a value as JSON for the API server, which parses the bodies of apply requests as
/// YAML. YAML rejects raw control characters and treats some other characters as line breaks, so
/// these are escaped. All of them fit into four hexadecimal digits; YAML would not combine
/// surrogate pairs.
pub fn for_yaml(value: &Value) -> String {
    let text = value.to_string();
    let is_read_otherwise = |c: char| {
        matches!(
            c,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
    };
    if !text.contains(is_read_otherwise) {
        return text;
    }
    let mut result = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        match is_read_otherwise(c) {
            true => result.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => result.push(c),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::for_yaml;

    #[test]
    fn control_characters_survive_yaml() {
        let all: String = ('\u{1}'..='\u{a0}')
            .chain("\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}\u{e0041}👩模".chars())
            .collect();
        let value = serde_json::json!({ "env": all });
        let text = for_yaml(&value);
        assert!(
            !text.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{feff}')),
            "{text}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
        assert_eq!(
            serde_saphyr::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }
}
