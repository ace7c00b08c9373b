//! Renders what `delete` did.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::error::Error;

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

#[derive(Clone, Debug, JsonSchema, Serialize)]
struct NotDeleted {
    name: String,
    error: String,
    message: String,
}

/// The answer to several names.
#[derive(JsonSchema, Serialize)]
pub struct DeletionBatch<'a> {
    success: &'a [Deleted],
    failed: Vec<NotDeleted>,
}

pub fn batch<'a>(deleted: &'a [Deleted], failed: &[(String, Error)]) -> DeletionBatch<'a> {
    let not = |(name, error): &(String, Error)| NotDeleted {
        name: name.clone(),
        error: error.name.to_string(),
        message: error.to_string(),
    };
    DeletionBatch {
        success: deleted,
        failed: failed.iter().map(not).collect(),
    }
}

/// Returns one job for people.
pub fn text(deleted: &Deleted) -> String {
    let name = deleted
        .job_id
        .as_ref()
        .or(deleted.name.as_ref())
        .map_or("", String::as_str);
    format!("{name} {}: {}\n", deleted.status, deleted.message)
}
