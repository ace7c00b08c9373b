//! Renders the results of `create` and `apply`.

use schemars::JsonSchema;
use serde::Serialize;

use super::local_files::lines;
use crate::format::text::{clean, count};
use gpuctl_core::model::GpuCount;
pub use gpuctl_core::model::contract::submission::{Created, Made};
use gpuctl_core::model::contract::submission::{DocumentName, FailedDocument, FromSite, LocalFile};

/// Renders a line for each value from the site's defaults.
pub fn site_lines(defaults: &[FromSite]) -> Vec<String> {
    let instead = |value: &FromSite| {
        if value.enforced {
            ", instead of the file's"
        } else {
            ""
        }
    };
    defaults
        .iter()
        .map(|value| {
            format!(
                "{}: {} (the site's defaults, {}{})",
                clean(&value.field),
                clean(&value.value),
                clean(&value.scope),
                instead(value)
            )
        })
        .collect()
}

/// A document that could not be created.
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
    /// `null` for pools and quotas, which have no namespace either.
    job_id: Option<&'a str>,
    name: &'a str,
    namespace: Option<&'a str>,
    /// `created`, `updated`, `unchanged` or `replaced`; only for `apply`.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'a str>,
    /// Local files whose content became part of the job.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    local_files: &'a [LocalFile],
}

/// The JSON output for several documents.
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

/// Renders that a pool, a quota or the site's defaults were written.
pub fn made_text(made: &Made) -> String {
    format!("{}/{} {}\n", made.kind, made.name, made.message)
}

/// Renders a created job as text.
pub fn text(created: &Created) -> String {
    let unit = match created.kind {
        // Use the usual word for a pod of this kind of job.
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
