//! Renders what `scale`, `pause` and `resume` did.

use schemars::JsonSchema;
use serde::Serialize;

/// A job whose size was changed.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaled {
    pub job_id: String,
    pub namespace: String,
    pub kind: &'static str,
    /// What was done: `scaled`, `paused` or `resumed`.
    pub status: &'static str,
    /// Pods before and after.
    pub replicas_before: u32,
    pub replicas: u32,
    pub message: String,
}

/// Returns one job for people.
pub fn text(scaled: &Scaled) -> String {
    format!("{}: {}\n", scaled.job_id, scaled.message)
}
