//! JSON output of `convert`: the documents, and the fields of the originals without an equivalent.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The JSON output of `convert`.
#[derive(JsonSchema, Serialize)]
pub struct ConvertedList<'a> {
    total: usize,
    items: Vec<ConvertedItem<'a>>,
}

impl<'a> From<Vec<ConvertedItem<'a>>> for ConvertedList<'a> {
    fn from(items: Vec<ConvertedItem<'a>>) -> Self {
        Self {
            total: items.len(),
            items,
        }
    }
}

/// A converted document.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConvertedItem<'a> {
    /// The original object, such as `Job/train`.
    pub from: &'a str,
    /// A job file.
    pub document: &'a Value,
    /// Fields of the original that have no equivalent in the file, with the reason if there is one.
    pub not_carried_over: &'a [String],
}
