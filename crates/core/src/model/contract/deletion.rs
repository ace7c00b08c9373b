//! The result of a deletion. Scripts read it as JSON, so field names must not change.

use schemars::JsonSchema;
use serde::Serialize;

/// A job, pool or quota that is being deleted or is already deleted.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deleted {
    /// Only for a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Only for a pool or quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `null` for pools and quotas, which have no namespace.
    pub namespace: Option<String>,
    /// `terminating` while pods are terminating, `deleted` when all are deleted.
    pub status: &'static str,
    pub message: String,
    /// PersistentVolumeClaims of the job that are kept with their data.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// PersistentVolumeClaims that were deleted with their data.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub purged: Vec<String>,
    /// `client` or `server` for a dry run, which deleted nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<&'static str>,
}

impl Deleted {
    /// Creates a result without a job, name or namespace. The caller sets them.
    pub fn new(status: &'static str, message: String) -> Self {
        Self {
            job_id: None,
            name: None,
            namespace: None,
            status,
            message,
            kept: Vec::new(),
            purged: Vec::new(),
            dry_run: None,
        }
    }
}
