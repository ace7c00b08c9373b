//! What a deletion did. Scripts read it as JSON, so names of fields are kept.

use schemars::JsonSchema;
use serde::Serialize;

/// A job that is going or gone.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deleted {
    /// Only of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Only of a pool or quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `null` for pools and quotas, which belong to no namespace.
    pub namespace: Option<String>,
    /// `terminating` while pods end, `deleted` when they are gone.
    pub status: &'static str,
    pub message: String,
    /// Claims of the job that stay, with their data.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Claims that were deleted with their data.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub purged: Vec<String>,
}

impl Deleted {
    /// Makes an answer that names no job yet.
    pub fn new(status: &'static str, message: String) -> Self {
        Self {
            job_id: None,
            name: None,
            namespace: None,
            status,
            message,
            kept: Vec::new(),
            purged: Vec::new(),
        }
    }
}
