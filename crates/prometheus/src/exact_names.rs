//! Rewrites queries for stores that reject regex matchers on metric names, such as Google Cloud's.
//! A query with a name pattern becomes one query per matching name. This relies on properties of
//! gpuctl's own queries: each has at most one pattern and aggregates nothing across names.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::HttpReply;
use gpuctl_core::model::values::series::Series;

/// Text before a name pattern in a query. `IN_FORM` is the same text, percent-encoded.
const PATTERN: &str = "__name__=~\"";
const IN_FORM: &str = "__name__%3D%7E%22";

/// Returns true if a query or path contains a name pattern.
pub(super) fn are_required(text: &str) -> bool {
    text.contains(PATTERN) || text.contains(IN_FORM)
}

/// Parses the response of the endpoint that lists metric names.
pub(super) fn listed(reply: &HttpReply) -> Option<Vec<String>> {
    let document: Value = serde_json::from_slice(&reply.body).ok()?;
    let list = document["data"].as_array().filter(|_| reply.code == 200)?;
    Some(
        list.iter()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect(),
    )
}

/// Returns one query per name that matches the pattern, or no query if the store has no such
/// metric.
pub(super) fn queries(query: &str, names: &[String]) -> Vec<String> {
    let Some(pattern) = patterns(query).next() else {
        return vec![query.to_owned()];
    };
    // Prometheus anchors regexes at both ends.
    // String literals of PromQL escape backslashes.
    let Ok(matching) = Regex::new(&format!("^(?:{})$", pattern.replace("\\\\", "\\"))) else {
        return Vec::new();
    };
    let query_for = |name: &String| {
        query.replace(
            &format!("{PATTERN}{pattern}\""),
            &format!("__name__=\"{name}\""),
        )
    };
    names
        .iter()
        .filter(|name| matching.is_match(name))
        .map(query_for)
        .collect()
}

/// Replaces each `match[]` parameter that has a pattern with one parameter per matching name.
pub(super) fn path(path: &str, names: &[String]) -> String {
    let Some((place, form)) = path.split_once('?') else {
        return path.to_owned();
    };
    let mut exact = form_urlencoded::Serializer::new(String::new());
    for (key, value) in form_urlencoded::parse(form.as_bytes()) {
        let values = if are_required(&value) {
            queries(&value, names)
        } else {
            vec![value.into_owned()]
        };
        exact.extend_pairs(values.iter().map(|value| (&key, value)));
    }
    format!("{place}?{}", exact.finish())
}

/// Merges the responses of several queries. A series that several responses contain occurs once in
/// the result.
pub(super) fn merged(answers: Vec<Vec<Series>>) -> Vec<Series> {
    let mut by_labels = BTreeMap::new();
    for series in answers.into_iter().flatten() {
        by_labels.entry(series.labels).or_insert(series.points);
    }
    by_labels
        .into_iter()
        .map(|(labels, points)| Series { labels, points })
        .collect()
}

/// Returns the name patterns of a query, with the escapes of their string literals.
pub(super) fn patterns(query: &str) -> impl Iterator<Item = &str> {
    query
        .split(PATTERN)
        .skip(1)
        .filter_map(|rest| rest.split_once('"').map(|(pattern, _)| pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["a_total", "b_total", "kube:b", "up"]
            .map(ToOwned::to_owned)
            .to_vec()
    }

    #[test]
    fn name_patterns_expand_to_existing_names() {
        let expanded = |query: &str| queries(query, &names());
        assert_eq!(
            expanded(
                r#"max by (__name__) ({__name__=~"a_total|c_total|b_total",x="y"} or {__name__=~"a_total|c_total|b_total",z="y"})"#
            ),
            [
                r#"max by (__name__) ({__name__="a_total",x="y"} or {__name__="a_total",z="y"})"#,
                r#"max by (__name__) ({__name__="b_total",x="y"} or {__name__="b_total",z="y"})"#,
            ]
        );
        assert_eq!(
            expanded(r#"{__name__=~"(?i)(.*[_:])?B"}"#),
            [r#"{__name__="kube:b"}"#]
        );
        assert!(
            expanded(r#"{__name__=~"none|b"}"#).is_empty(),
            "all of a name matches"
        );
    }

    #[test]
    fn forms_contain_each_expanded_name() {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let form = form
            .append_pair("start", "5")
            .append_pair("match[]", r#"{__name__=~"a_total|b_total"}"#)
            .finish();
        let exact = path(&format!("api/v1/labels?{form}"), &names());
        let (place, exact) = exact.split_once('?').unwrap();
        let pairs: Vec<(String, String)> = form_urlencoded::parse(exact.as_bytes())
            .into_owned()
            .collect();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(place, "api/v1/labels");
        assert_eq!(
            pairs,
            [
                pair("start", "5"),
                pair("match[]", r#"{__name__="a_total"}"#),
                pair("match[]", r#"{__name__="b_total"}"#)
            ]
        );
        assert!(are_required(&format!("x?{form}")) && !are_required("x?start=5"));
    }
}
