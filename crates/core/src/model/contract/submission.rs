//! Results of a submission, one for each document. Scripts read them as JSON, so field names must
//! not change.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;
use crate::model::GpuCount;

/// A document that was created.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Created {
    pub job_id: String,
    pub name: String,
    pub kind: &'static str,
    pub status: String,
    pub created_at: Option<Timestamp>,
    pub message: String,
    pub namespace: String,
    #[serde(skip)]
    pub pods: u64,
    /// Number of pods in each replica of a service.
    #[serde(skip)]
    pub group_size: u64,
    #[serde(skip)]
    pub gpus_per_pod: GpuCount,
    #[serde(skip)]
    pub gpu_type: Option<String>,
    #[serde(skip)]
    pub pool: Option<String>,
    /// Kinds and names of the other objects that were created.
    #[serde(skip)]
    pub objects: Vec<String>,
    /// Values that the job takes from the site's defaults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<FromSite>,
    /// Files of this machine that became part of the job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local_files: Vec<LocalFile>,
    /// Present only when nothing was written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The action of `apply`: created, updated, unchanged, replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<&'static str>,
    /// Fields that `apply` changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// A value that a job takes from the site's defaults.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FromSite {
    /// The field of the job's document.
    pub field: String,
    pub value: String,
    /// `all`, `kind training`, `pool infer-pool`.
    pub scope: String,
    /// True when it overrides the value in the file.
    pub enforced: bool,
}

/// A file of this machine that becomes part of a job.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LocalFile {
    /// The path on this machine.
    pub path: String,
    pub bytes: u64,
    /// The path in the container.
    pub destination: String,
}

/// A pool or a quota that was created.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Made {
    #[serde(skip)]
    pub kind: &'static str,
    pub name: String,
    pub status: &'static str,
    pub message: String,
    /// Present only when nothing was written.
    #[serde(rename = "dryRun", skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl Made {
    /// Converts to the form that submissions of several documents print.
    pub fn created(&self) -> Created {
        Created {
            job_id: self.name.clone(),
            name: self.name.clone(),
            kind: self.kind,
            status: self.status.to_owned(),
            created_at: None,
            message: self.message.clone(),
            namespace: String::new(),
            pods: 0,
            group_size: 1,
            gpus_per_pod: GpuCount::ZERO,
            gpu_type: None,
            pool: None,
            objects: Vec::new(),
            defaults: Vec::new(),
            local_files: Vec::new(),
            dry_run: self.dry_run,
            action: None,
            changes: Vec::new(),
        }
    }
}

/// Identifies a document by its kind and name.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DocumentName {
    /// `training`, `pool`, …; `file` for a file that could not be read as documents.
    pub kind: &'static str,
    pub name: String,
}

impl fmt::Display for DocumentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// A document that could not be written, with the error.
#[derive(Clone, Debug)]
pub struct FailedDocument {
    pub document: DocumentName,
    pub error: Error,
}
