//! Restricts queries to the series of one cluster by adding label matchers to every selector. It
//! supports only the queries that gpuctl writes; tests check the result with a PromQL parser.

use std::fmt;
use std::str::FromStr;

/// Label matchers as pairs of a label and its required value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matchers {
    pairs: Vec<(String, String)>,
    /// True if series without the labels match too, because an exporter does not set them.
    includes_unlabeled: bool,
}

/// Error for a matcher that is not of the form `LABEL=VALUE`.
#[derive(Debug, thiserror::Error)]
pub enum InvalidMatcher {
    #[error("`{0}` is not a matcher of the form LABEL=VALUE, such as cluster=prod")]
    NotAPair(String),
    #[error(
        "`{0}` would replace the metrics that queries select; match a label of the cluster, such as cluster=prod"
    )]
    MetricName(String),
}

/// PromQL keywords that can occur where a metric name could be.
const KEYWORDS: [&str; 15] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "offset",
    "or",
    "and",
    "unless",
    "bool",
    "atan2",
    "start",
    "end",
    "inf",
];
/// Keywords before a parenthesized list of labels.
const BEFORE_LABELS: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

impl Matchers {
    pub fn new(pairs: Vec<(String, String)>) -> Self {
        Self {
            pairs,
            includes_unlabeled: false,
        }
    }

    /// Also matches series that have none of the labels.
    #[must_use]
    pub fn or_unlabeled(self, includes_unlabeled: bool) -> Self {
        Self {
            includes_unlabeled,
            ..self
        }
    }

    /// Returns true if series without the labels match.
    pub fn includes_unlabeled(&self) -> bool {
        self.includes_unlabeled
    }

    /// Formats a suffix for messages about missing data, such as ` with cluster=prod`.
    pub fn suffix(&self) -> String {
        if self.is_empty() {
            String::new()
        } else {
            format!(" with {self}")
        }
    }

    /// Returns the labels with their values.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Adds the matchers to every selector of a query.
    pub fn narrowed(&self, query: &str) -> String {
        if self.is_empty() {
            return query.to_owned();
        }
        let matcher = |(label, value): &(String, String)| match self.includes_unlabeled {
            true => format!("{label}=~{}", quoted(&optional(value))),
            false => format!("{label}={}", quoted(value)),
        };
        let added = self.pairs.iter().map(matcher).collect::<Vec<_>>().join(",");
        let bytes = query.as_bytes();
        let (mut text, mut at) = (String::with_capacity(query.len() * 2), 0);
        while at < bytes.len() {
            let rest = &query[at..];
            let length = match bytes[at] {
                quote @ (b'"' | b'\'' | b'`') => string_length(rest, quote),
                b'{' => {
                    // Find the closing brace, ignoring braces in strings.
                    let selector = braces_length(rest);
                    let inner = &rest[1..selector];
                    let inner = inner
                        .strip_suffix('}')
                        .unwrap_or(inner)
                        .trim()
                        .trim_end_matches(',');
                    let comma = if inner.is_empty() { "" } else { "," };
                    text.extend(["{", inner, comma, &added, "}"]);
                    at += selector;
                    continue;
                }
                // Durations and steps in brackets contain no selectors.
                b'[' => rest.find(']').map_or(rest.len(), |end| end + 1),
                // Numbers and durations contain letters, as in `1e3` and `5m`.
                byte if byte.is_ascii_digit() => rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
                    .unwrap_or(rest.len()),
                byte if byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':') => {
                    let word = rest
                        .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | ':'))
                        .unwrap_or(rest.len());
                    let (name, after) = rest.split_at(word);
                    let next = after.trim_start();
                    if BEFORE_LABELS.contains(&name.to_ascii_lowercase().as_str())
                        && next.starts_with('(')
                    {
                        // Label lists contain no selectors, so they are copied unchanged.
                        word + after.find(')').map_or(after.len(), |end| end + 1)
                    } else {
                        let is_metric = !next.starts_with(['(', '{'])
                            && !is_before_group(name, next)
                            && !is_keyword(name);
                        text.push_str(name);
                        if is_metric {
                            text.extend(["{", &added, "}"]);
                        }
                        at += word;
                        continue;
                    }
                }
                _ => rest.chars().next().map_or(1, char::len_utf8),
            };
            text.push_str(&rest[..length]);
            at += length;
        }
        text
    }
}

/// Returns true if an aggregation's labels precede its argument, as in `sum by (node) (…)`.
fn is_before_group(name: &str, next: &str) -> bool {
    const AGGREGATIONS: [&str; 12] = [
        "sum",
        "min",
        "max",
        "avg",
        "group",
        "count",
        "stddev",
        "stdvar",
        "topk",
        "bottomk",
        "quantile",
        "count_values",
    ];
    AGGREGATIONS.contains(&name.to_ascii_lowercase().as_str())
        && ["by", "without"].iter().any(|word| next.starts_with(word))
}

fn is_keyword(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    KEYWORDS.contains(&name.as_str()) || name == "nan"
}

/// Returns the length of a string literal, including its quotes.
fn string_length(rest: &str, quote: u8) -> usize {
    let bytes = rest.as_bytes();
    let mut position = 1;
    while position < bytes.len() && bytes[position] != quote {
        // Strings in backticks have no escape sequences.
        position += if bytes[position] == b'\\' && quote != b'`' {
            2
        } else {
            1
        };
    }
    (position + 1).min(bytes.len())
}

/// Returns the length of a selector, including its braces.
fn braces_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut position = 1;
    while position < bytes.len() && bytes[position] != b'}' {
        position += match bytes[position] {
            quote @ (b'"' | b'\'' | b'`') => string_length(&rest[position..], quote),
            _ => 1,
        };
    }
    (position + 1).min(bytes.len())
}

/// Builds a regular expression for a label that is absent or has this value.
pub(super) fn optional(value: &str) -> String {
    format!("{}|", regex::escape(value))
}

fn quoted(value: &str) -> String {
    format!(
        "\"{}\"",
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    )
}

impl FromStr for Matchers {
    type Err = InvalidMatcher;

    fn from_str(text: &str) -> Result<Self, InvalidMatcher> {
        let wrong = || InvalidMatcher::NotAPair(text.to_owned());
        if text.contains("__name__") {
            return Err(InvalidMatcher::MetricName(text.to_owned()));
        }
        let (label, value) = text.split_once('=').ok_or_else(wrong)?;
        let (label, value) = (label.trim(), value.trim());
        let value = value
            .strip_prefix('"')
            .and_then(|value| value.strip_suffix('"'))
            .unwrap_or(value);
        let is_label = |label: &str| {
            !label.is_empty()
                && !label.starts_with(|c: char| c.is_ascii_digit())
                && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        // `==` and `=~` are other operators, whose second character is not part of the value.
        if !is_label(label) || value.is_empty() || value.starts_with(['=', '~']) {
            return Err(wrong());
        }
        Ok(Self::new(vec![(label.to_owned(), value.to_owned())]))
    }
}

impl FromIterator<Self> for Matchers {
    fn from_iter<T: IntoIterator<Item = Self>>(all: T) -> Self {
        Self::new(
            all.into_iter()
                .flat_map(|matchers| matchers.pairs)
                .collect(),
        )
    }
}

impl fmt::Display for Matchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self
            .pairs
            .iter()
            .map(|(label, value)| format!("{label}={value}"))
            .collect();
        f.write_str(&pairs.join(","))?;
        match self.includes_unlabeled {
            true => f.write_str(" (or unset)"),
            false => Ok(()),
        }
    }
}

/// Checks queries in tests of other crates.
#[cfg(any(test, feature = "testing"))]
pub mod judge {
    use promql_parser::parser::{Expr, parse};

    use super::Matchers;

    /// Counts the selectors of a query, and how many of them have the matcher.
    fn selectors(expression: &Expr, label: &str, value: &str) -> (usize, usize) {
        let both = |parts: &[&Expr]| {
            parts
                .iter()
                .map(|part| selectors(part, label, value))
                .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
        };
        let matched = |node: &promql_parser::parser::VectorSelector| {
            let has = node
                .matchers
                .matchers
                .iter()
                .any(|matcher| matcher.name == label && matcher.value == value);
            (1, usize::from(has))
        };
        match expression {
            Expr::VectorSelector(node) => matched(node),
            Expr::MatrixSelector(node) => matched(&node.vs),
            Expr::Aggregate(node) => {
                let parts: Vec<&Expr> = std::iter::once(node.expr.as_ref())
                    .chain(node.param.as_deref())
                    .collect();
                both(&parts)
            }
            Expr::Unary(node) => both(&[&node.expr]),
            Expr::Binary(node) => both(&[&node.lhs, &node.rhs]),
            Expr::Paren(node) => both(&[&node.expr]),
            Expr::Subquery(node) => both(&[&node.expr]),
            Expr::Call(node) => both(&node.args.args.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
            _ => (0, 0),
        }
    }

    /// Panics unless every selector of a narrowed query has the matcher, according to a PromQL
    /// parser, and the query has at most one name pattern.
    #[track_caller]
    pub fn holds(query: &str) {
        let before = selectors(
            &parse(query).unwrap_or_else(|error| panic!("{error}: {query}")),
            "cluster",
            "a\"}b",
        );
        let narrowed =
            Matchers::new(vec![("cluster".to_owned(), "a\"}b".to_owned())]).narrowed(query);
        let after = selectors(
            &parse(&narrowed).unwrap_or_else(|error| panic!("{error}: {narrowed}")),
            "cluster",
            "a\"}b",
        );
        assert_eq!(
            (after.0, after.1),
            (before.0, before.0),
            "{query}\n{narrowed}"
        );
        let mut patterns: Vec<&str> = super::super::exact_names::patterns(query).collect();
        patterns.dedup();
        assert!(
            patterns.len() <= 1,
            "a store that wants exact names gets one query for each name: {query}"
        );
    }
}

#[cfg(test)]
mod tests;
