//! Label selectors in the syntax of `kubectl -l`: `team=nlp`, `tier!=test`, `gpu`, `!spot`, `zone
//! in (a,b)`. As in Kubernetes ("Labels and Selectors"), a negative requirement also matches
//! objects without the label.

use std::collections::BTreeMap;

/// Requirements on labels. All must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Vec<LabelRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelRequirement {
    /// The label has one of these values.
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Parses requirements that are separated by commas, or returns `None` if any is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rules = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            // Commas in parentheses separate values.
            let open = rest.find('(');
            let end = match (rest.find(','), open) {
                (Some(comma), Some(open)) if open < comma => {
                    let close = rest.find(')')?;
                    rest[close..]
                        .find(',')
                        .map_or(rest.len(), |after| close + after)
                }
                (Some(comma), _) => comma,
                (None, _) => rest.len(),
            };
            rules.push(LabelRequirement::parse(rest[..end].trim())?);
            rest = rest[end..].trim_start_matches(',').trim_start();
        }
        (!rules.is_empty()).then_some(Self(rules))
    }

    /// Returns true if every requirement matches the labels.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = |key: &String, values: &[String]| {
            labels.get(key).is_some_and(|value| values.contains(value))
        };
        self.0.iter().all(|rule| match rule {
            LabelRequirement::In(key, values) => has(key, values),
            LabelRequirement::NotIn(key, values) => !has(key, values),
            LabelRequirement::Exists(key) => labels.contains_key(key),
            LabelRequirement::Absent(key) => !labels.contains_key(key),
        })
    }
}

impl LabelRequirement {
    fn parse(text: &str) -> Option<Self> {
        let good = |key: &str| {
            let key = key.trim();
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            (!key.is_empty() && key.chars().all(plain)).then(|| key.to_owned())
        };
        if let Some((head, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            let values = values
                .split(',')
                .map(|value| value.trim().to_owned())
                .collect();
            let (key, word) = head.trim().rsplit_once(char::is_whitespace)?;
            return match word {
                "in" => Some(Self::In(good(key)?, values)),
                "notin" => Some(Self::NotIn(good(key)?, values)),
                _ => None,
            };
        }
        // Try operators that contain `=` before `=` itself.
        if let Some((key, value)) = text.split_once("!=") {
            return Some(Self::NotIn(good(key)?, vec![value.trim().to_owned()]));
        }
        if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            return Some(Self::In(good(key)?, vec![value.trim().to_owned()]));
        }
        match text.strip_prefix('!') {
            Some(key) => Some(Self::Absent(good(key)?)),
            None => Some(Self::Exists(good(text)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_match_like_kubectl() {
        let labels = BTreeMap::from([
            ("team".to_owned(), "nlp".to_owned()),
            ("zone".to_owned(), "b".to_owned()),
        ]);
        for (text, expected) in [
            ("team=nlp", Some(true)),
            ("team==nlp", Some(true)),
            ("team=cv", Some(false)),
            ("team!=cv", Some(true)),
            ("tier!=test", Some(true)),
            ("team", Some(true)),
            ("!team", Some(false)),
            ("!spot,zone in (a, b),team=nlp", Some(true)),
            ("zone notin (a,b)", Some(false)),
            ("zone in (a,b),team=cv", Some(false)),
            ("team=", Some(false)),
            ("", None),
            ("a b", None),
            ("zone within (a)", None),
        ] {
            assert_eq!(
                Selector::parse(text).map(|selector| selector.matches(&labels)),
                expected,
                "{text}"
            );
        }
    }
}
