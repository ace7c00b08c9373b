//! Renders PersistentVolumeClaims.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::table::{Cell, Table, left, right};
use crate::format::text::{age, clean, labels};
use crate::{Format, TextStyle};
use gpuctl_core::model::Claim;

/// The JSON output of `get claims`.
#[derive(JsonSchema, Serialize)]
pub struct ClaimList<'a> {
    total: usize,
    items: Vec<ClaimItem<'a>>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClaimItem<'a> {
    name: &'a str,
    namespace: &'a str,
    /// The job that the claim was created for; `null` for claims that gpuctl did not create.
    job_id: Option<&'a str>,
    /// Whether that job still exists; `null` when the user is not allowed to list jobs.
    job_exists: Option<bool>,
    size: Option<&'a str>,
    status: &'a str,
    storage_class: Option<&'a str>,
    access_modes: &'a [String],
    /// Pods that mount it now; `null` when the user is not allowed to list pods.
    pods: Option<&'a [String]>,
    /// When the last pod that mounted it ended. `null` while a pod mounts it, or when no ended pod
    /// that mounted it still exists.
    last_used_at: Option<Timestamp>,
    created_at: Option<Timestamp>,
}

pub fn list(claims: &[Claim], total: usize) -> ClaimList<'_> {
    ClaimList {
        total,
        items: claims.iter().map(item).collect(),
    }
}

fn item(claim: &Claim) -> ClaimItem<'_> {
    let unused = claim.pods.as_ref().is_none_or(Vec::is_empty);
    ClaimItem {
        name: &claim.name,
        namespace: &claim.namespace,
        job_id: claim.job.as_deref(),
        job_exists: claim.job_exists,
        size: claim.size.as_deref(),
        status: &claim.status,
        storage_class: claim.storage_class.as_deref(),
        access_modes: &claim.access_modes,
        pods: claim.pods.as_deref(),
        last_used_at: claim.last_used.filter(|_| unused),
        created_at: claim.created_at,
    }
}

pub fn names(claims: &[Claim]) -> Vec<String> {
    claims
        .iter()
        .map(|claim| format!("{}/{}", clean(&claim.namespace), clean(&claim.name)))
        .collect()
}

pub fn table(
    claims: &[Claim],
    format: Format,
    headers: bool,
    style: TextStyle,
    now: Timestamp,
) -> String {
    let show_labels = claims.iter().any(|claim| claim.labels.is_some());
    let mut columns = vec![
        left("NAMESPACE").yielding(),
        left("NAME"),
        right("SIZE"),
        left("JOB"),
        left("STATUS").yielding(),
        right("LAST USE"),
        left("CLASS").yielding(),
        right("AGE").in_csv("age_seconds"),
    ];
    columns.extend(show_labels.then_some(left("LABELS")));
    let mut table = Table::new(columns).with_wide();
    for claim in claims {
        let job = match (&claim.job, claim.job_exists) {
            (Some(job), Some(false)) => format!("{job} (deleted)"),
            (Some(job), _) => job.clone(),
            (None, _) => "-".to_owned(),
        };
        let usage = match (&claim.pods, claim.last_used) {
            (Some(pods), _) if !pods.is_empty() => "in use".to_owned(),
            (Some(_), Some(time)) => format!("{} ago", age(Some(time), now)),
            _ => "-".to_owned(),
        };
        let mut cells: Vec<Cell> = vec![
            claim.namespace.clone().into(),
            claim.name.clone().into(),
            claim.size.clone().unwrap_or_else(|| "-".to_owned()).into(),
            job.into(),
            claim.status.clone().into(),
            usage.into(),
            claim
                .storage_class
                .clone()
                .unwrap_or_else(|| "-".to_owned())
                .into(),
            Cell::age(claim.created_at, now),
        ];
        cells.extend(
            claim
                .labels
                .as_ref()
                .map(|of_claim| labels(of_claim).into()),
        );
        table.row(cells);
    }
    table.show(format, headers, style)
}
