//! Parsers of option values: names, durations, quantities, selectors.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::observe::hourly::Dimension;
use gpuctl_core::model::values::selector::Selector;
use gpuctl_core::model::values::text::is_namespace;

/// Expected form of a value, as shown in clap's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub(crate) struct Expected(pub &'static str);

/// Accepts the characters of Kubernetes names. Other characters could change the meaning of a URL
/// or a selector.
pub(crate) fn object_name(text: &str) -> Result<String, Expected> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let edge = |c: char| c.is_ascii_alphanumeric();
    // Object names have at most 253 characters, like DNS subdomains.
    let is_valid = text.len() <= 253
        && text.bytes().all(plain)
        && text.starts_with(edge)
        && text.ends_with(edge)
        && !text.contains("..");
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(Expected("a name with only letters, digits, `-` and `.`"))
    }
}

/// Accepts a valid namespace name.
pub(crate) fn namespace(text: &str) -> Result<String, Expected> {
    if is_namespace(text) {
        Ok(text.to_owned())
    } else {
        Err(Expected(
            "a namespace of at most 63 lower-case letters, digits and `-`, such as team-a",
        ))
    }
}

/// Parses a duration such as `30s`, `5m` or `2d`.
pub(crate) fn duration(text: &str) -> Result<Duration, Expected> {
    gpuctl_core::model::values::quantity::duration(text)
        .ok_or(Expected("a duration such as 30s, 5m or 2h"))
}

/// Parses a Kubernetes quantity. Returns thousandths of its unit.
pub(crate) fn thousandths(text: &str) -> Result<u64, Expected> {
    let amount = gpuctl_core::model::values::quantity::milli(text)
        .and_then(|milli| u64::try_from(milli).ok());
    amount.ok_or(Expected("a quantity such as 2, 500m or 16Gi"))
}

pub(crate) fn selector(text: &str) -> Result<Selector, Expected> {
    Selector::parse(text).ok_or(Expected(
        "a selector such as team=nlp, tier!=test or zone in (a,b)",
    ))
}

pub(crate) fn dimension() -> impl TypedValueParser<Value = Dimension> {
    PossibleValuesParser::new(["label", "annotation"]).map(|word| {
        if word == "label" {
            Dimension::Label
        } else {
            Dimension::Annotation
        }
    })
}
