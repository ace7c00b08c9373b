//! Renders the results of `scale`, `pause` and `resume`.

use schemars::JsonSchema;
use serde::Serialize;

/// A job whose size changed.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaled {
    pub job_id: String,
    pub namespace: String,
    pub kind: &'static str,
    /// The action: `scaled`, `paused` or `resumed`.
    pub status: &'static str,
    /// Number of pods before the change. `replicas` is the number after it.
    pub replicas_before: u32,
    pub replicas: u32,
    pub message: String,
}

pub fn text(scaled: &Scaled) -> String {
    format!("{}: {}\n", scaled.job_id, scaled.message)
}
