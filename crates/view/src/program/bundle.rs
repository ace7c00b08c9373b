//! JSON output of `doctor --bundle`: the written file, and what it lacks.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// The JSON output of `doctor --bundle`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleWritten<'a> {
    pub file: String,
    pub bytes: u64,
    pub captured_at: Timestamp,
    /// Collections that could not be read, each with the reason.
    pub unread: &'a [String],
    /// `null` without a Prometheus.
    pub prometheus: Option<&'a str>,
}
