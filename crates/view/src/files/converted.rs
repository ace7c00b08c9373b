//! What `convert` answers programs: each document, and what of its original could not be carried
//! over.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// An entry of the answer of `convert`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConvertedItem<'a> {
    /// What it came from, as `Job/train`.
    pub from: &'a str,
    /// A specification file.
    pub document: &'a Value,
    /// Fields of the original that have no place, with the reason where there is one.
    pub not_carried_over: &'a [String],
}
