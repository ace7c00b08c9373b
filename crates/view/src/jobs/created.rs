//! Renders what `create` and `apply` did.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::local_files::{LocalFile, lines};
use crate::format::text::{clean, count};
use gpuctl_core::error::Error;
use gpuctl_core::model::GpuCount;

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
    /// Pods of each replica of a service.
    #[serde(skip)]
    pub group_size: u64,
    #[serde(skip)]
    pub gpus_per_pod: GpuCount,
    #[serde(skip)]
    pub gpu_type: Option<String>,
    #[serde(skip)]
    pub pool: Option<String>,
    /// Kinds and names of the other objects.
    #[serde(skip)]
    pub objects: Vec<String>,
    /// What it has from the site's defaults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<FromSite>,
    /// Files of this machine that became part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local_files: Vec<LocalFile>,
    /// Only there when nothing was written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// What `apply` did: created, updated, unchanged, replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<&'static str>,
    /// Fields that `apply` changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// A value that a job has from the site's defaults.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FromSite {
    /// The field of the job's document.
    pub field: String,
    pub value: String,
    /// `all`, `kind training`, `pool infer-pool`.
    pub scope: String,
    /// True where it stands instead of the file's.
    pub enforced: bool,
}

/// Returns a line for each value from the site, for people.
pub fn site_lines(defaults: &[FromSite]) -> Vec<String> {
    let instead = |one: &FromSite| {
        if one.enforced {
            ", instead of the file's"
        } else {
            ""
        }
    };
    defaults
        .iter()
        .map(|one| {
            format!(
                "{}: {} (the site's defaults, {}{})",
                clean(&one.field),
                clean(&one.value),
                clean(&one.scope),
                instead(one)
            )
        })
        .collect()
}

/// A pool or a quota that was made.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Made {
    #[serde(skip)]
    pub kind: &'static str,
    pub name: String,
    pub status: &'static str,
    pub message: String,
    /// Only there when nothing was written.
    #[serde(rename = "dryRun", skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl Made {
    /// As one of several documents.
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

    /// Formats it for people.
    pub fn text(&self) -> String {
        format!("{}/{} {}\n", self.kind, self.name, self.message)
    }
}

/// A document by its kind and name.
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

/// A document that could not be written, and why.
#[derive(Clone, Debug)]
pub struct FailedDocument {
    pub document: DocumentName,
    pub error: Error,
}

/// A failed document in JSON.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct NotCreated {
    pub kind: &'static str,
    pub name: String,
    pub error: String,
    pub message: String,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchItem<'a> {
    kind: &'a str,
    /// `null` for pools and quotas, which belong to no namespace either.
    job_id: Option<&'a str>,
    name: &'a str,
    namespace: Option<&'a str>,
    /// What `apply` did.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'a str>,
    /// Files of this machine that became part of it.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    local_files: &'a [LocalFile],
}

/// The answer to several documents.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmissionBatch<'a> {
    success: Vec<BatchItem<'a>>,
    failed: Vec<NotCreated>,
    not_tried: &'a [DocumentName],
}

pub fn batch<'a>(
    created: &'a [Created],
    failed: &[FailedDocument],
    not_tried: &'a [DocumentName],
) -> SubmissionBatch<'a> {
    let item = |created: &'a Created| BatchItem {
        kind: created.kind,
        job_id: Some(created.job_id.as_str()).filter(|_| !created.namespace.is_empty()),
        name: &created.name,
        namespace: Some(created.namespace.as_str()).filter(|namespace| !namespace.is_empty()),
        action: created.action,
        local_files: &created.local_files,
    };
    let not = |FailedDocument { document, error }: &FailedDocument| NotCreated {
        kind: document.kind,
        name: document.name.clone(),
        error: error.name.to_string(),
        message: error.to_string(),
    };
    SubmissionBatch {
        success: created.iter().map(item).collect(),
        failed: failed.iter().map(not).collect(),
        not_tried,
    }
}

/// Returns one created document for people.
pub fn text(created: &Created) -> String {
    let unit = match created.kind {
        "training" if created.gpus_per_pod > GpuCount::ZERO => "node",
        "inference" | "compute" => "replica",
        _ => "pod",
    };
    let units = match created.group_size {
        0 | 1 => count(created.pods, unit),
        size => format!(
            "{} × {}",
            count(created.pods / size, unit),
            count(size, "node")
        ),
    };
    let size = match (created.gpus_per_pod, &created.gpu_type) {
        (GpuCount::ZERO, _) => format!("{units}, no GPU"),
        (gpus, Some(kind)) => format!("{units} × {gpus} {}", clean(kind)),
        (gpus, None) => format!("{units} × {}", count(gpus.0, "GPU")),
    };
    let pool = created
        .pool
        .as_deref()
        .map_or(String::new(), |pool| format!(", pool {}", clean(pool)));
    let done = created.action.unwrap_or("created");
    let verb = match (done, created.dry_run) {
        ("unchanged", _) => {
            return format!(
                "{}/{} unchanged in {}\n",
                created.kind, created.job_id, created.namespace
            );
        }
        (done, true) => format!("would be {done}"),
        (done, false) => done.to_owned(),
    };
    let below = match done {
        "updated" => created
            .changes
            .iter()
            .map(|line| format!("  {}\n", clean(line)))
            .collect(),
        _ => format!("  {}\n", created.objects.join(", ")),
    };
    let from_site: String = site_lines(&created.defaults)
        .iter()
        .map(|line| format!("  {line}\n"))
        .collect();
    let files: String = lines(&created.local_files)
        .iter()
        .map(|line| format!("  {line}\n"))
        .collect();
    format!(
        "{}/{} {verb} in {}: {size}{pool}\n{below}{files}{from_site}",
        created.kind, created.job_id, created.namespace
    )
}
