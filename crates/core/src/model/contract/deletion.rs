//! The result of a deletion. Scripts read it as JSON, so field names must not change.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::GpuCount;

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
    /// Nodes that did not confirm the end of the job's containers, so its GPUs there may be in use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<UnconfirmedNode>,
    /// `client` or `server` for a dry run, which deleted nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<&'static str>,
}

impl Deleted {
    /// Creates a result without a job, name or namespace, which the caller sets.
    pub fn new(status: &'static str, message: String) -> Self {
        Self {
            job_id: None,
            name: None,
            namespace: None,
            status,
            message,
            kept: Vec::new(),
            purged: Vec::new(),
            unconfirmed: Vec::new(),
            dry_run: None,
        }
    }
}

/// A node on which containers of a deleted job may still run.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnconfirmedNode {
    pub node: String,
    /// GPUs that these containers may still use.
    pub gpu: GpuCount,
    /// As POD/CONTAINER.
    pub containers: Vec<String>,
    /// The reason of the node's `Ready` condition, such as `NodeStatusUnknown`. `null` if the node
    /// could not be read.
    pub reason: Option<String>,
}
