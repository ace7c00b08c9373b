//! Renders the results of `scale`, `pause`, `resume` and `restart`.

use schemars::JsonSchema;
use serde::Serialize;

/// A job whose size changed.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaled {
    pub job_id: String,
    pub namespace: String,
    pub kind: &'static str,
    /// The action: `scaled`, `paused`, `resumed`, `restarting`, `resubmitted`, `updated` or
    /// `unchanged`.
    pub status: &'static str,
    /// Number of pods before the change. `replicas` is the number after it.
    pub replicas_before: u32,
    pub replicas: u32,
    pub message: String,
    /// `client` or `server` for a dry run, which changed nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<&'static str>,
}

pub fn text(scaled: &Scaled) -> String {
    let dry_run = dry_run_text(scaled.dry_run);
    format!("{}{dry_run}: {}\n", scaled.job_id, scaled.message)
}

/// Returns the suffix that marks the result of a dry run.
pub fn dry_run_text(dry_run: Option<&str>) -> String {
    dry_run.map_or_else(String::new, |place| format!(" ({place} dry run)"))
}
