//! Renders lists of workloads that any tool created, as defined by the workloads document.
//!
//! In JSON, times are in Unix seconds.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::facts::workload::WorkloadState;
use gpuctl_core::model::{GpuCount, Workload};

use crate::format::row_contexts::RowContexts;
use crate::format::table::{Cell, Table, left, right};
use crate::format::text::{clean, plain_name, status_line};
use crate::{Format, TextStyle};

/// A page of workloads.
#[derive(JsonSchema, Serialize)]
pub struct WorkloadList {
    data: Vec<WorkloadItem>,
    total: usize,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadItem {
    /// The kubeconfig context of its cluster, with `--all-contexts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    kind: String,
    name: String,
    namespace: String,
    uid: String,
    /// Whole devices that it holds now.
    gpu_allocated: GpuCount,
    /// Whole devices that it holds now, by product.
    gpu_allocation: BTreeMap<String, GpuCount>,
    gpu_slices: BTreeMap<String, u64>,
    /// Devices that it requests, whether it holds them or not.
    gpu_requested: GpuCount,
    status: &'static str,
    status_color: &'static str,
    /// `Suspended` or `ScaledToZero`.
    reason: Option<&'static str>,
    start_at: Option<i64>,
    /// 0 while the workload has not ended; `null` when it has ended but its end was not recorded.
    end_at: Option<i64>,
    source: &'static str,
}

/// Returns the end of the workload in Unix seconds, 0 if it has not ended, or `None` if its end was
/// not recorded.
pub(super) fn end(workload: &Workload) -> Option<i64> {
    if workload.has_ended() {
        workload.ended_at().map(Timestamp::as_second)
    } else {
        Some(0)
    }
}

pub fn list(workloads: &[&Workload], contexts: RowContexts<'_>, total: usize) -> WorkloadList {
    let item = |(index, workload): (usize, &&Workload)| WorkloadItem {
        context: contexts.owned(index),
        kind: workload.top.kind.clone(),
        name: workload.top.name.clone(),
        namespace: workload.top.namespace.clone(),
        uid: workload.top.uid.clone(),
        gpu_allocated: workload.gpus_held(),
        gpu_allocation: workload.held.clone(),
        gpu_slices: workload.slices.clone(),
        gpu_requested: workload.requested,
        status: workload.state.word(),
        status_color: workload.state.color(),
        reason: workload
            .top
            .resting
            .filter(|_| workload.state == WorkloadState::Pending),
        start_at: workload.started_at().map(Timestamp::as_second),
        end_at: end(workload),
        source: SOURCE,
    };
    WorkloadList {
        data: workloads.iter().enumerate().map(item).collect(),
        total,
    }
}

/// Data source of all workloads.
pub(super) const SOURCE: &str = "k8s";

/// Returns why a pod of the workload fails, or else the workload's state. The states in the
/// document do not show such a failure.
pub(super) fn status_cell(workload: &Workload) -> Cell {
    match workload.trouble() {
        Some(problem) => Cell::colored(problem, Some(colored::Color::Red)),
        None => Cell::colored(workload.state.word(), color(workload.state)),
    }
}

pub(super) fn color(standing: WorkloadState) -> Option<colored::Color> {
    match standing {
        WorkloadState::Running => Some(colored::Color::Green),
        WorkloadState::Failed => Some(colored::Color::Red),
        WorkloadState::Pending => Some(colored::Color::Yellow),
        WorkloadState::Completed | WorkloadState::Unknown => Some(colored::Color::BrightBlack),
    }
}

/// Renders workloads as a table.
pub fn table(
    workloads: &[&Workload],
    contexts: RowContexts<'_>,
    format: Format,
    headers: bool,
    style: TextStyle,
    now: Timestamp,
) -> String {
    let wide = matches!(format, Format::Wide | Format::Csv);
    let mut columns = vec![
        left("NAMESPACE"),
        left("KIND"),
        left("NAME"),
        left("STATUS"),
        right("HELD"),
        right("REQUESTED"),
    ];
    columns.extend([left("GPU").yielding(), right("AGE").in_csv("age_seconds")]);
    columns.extend(wide.then_some(left("UID")));
    let mut table = Table::new(columns).with_wide();
    for workload in workloads {
        let products: Vec<&str> = workload
            .held
            .keys()
            .chain(workload.slices.keys())
            .map(String::as_str)
            .collect();
        let mut cells: Vec<Cell> = vec![
            workload.top.namespace.clone().into(),
            workload.top.kind.clone().into(),
            plain_name(&workload.top.name).into_owned().into(),
            status_cell(workload),
            held(workload).to_string().into(),
            workload.requested.to_string().into(),
            products.join(",").into(),
            Cell::age(workload.created_at(), now),
        ];
        cells.extend(wide.then(|| workload.top.uid.clone().into()));
        table.row(cells);
    }
    table.with_contexts(contexts).show(format, headers, style)
}

/// Returns the number of devices and slices that a workload holds.
pub(super) fn held(workload: &Workload) -> GpuCount {
    workload.gpus_held() + GpuCount(workload.slices.values().sum())
}

/// Returns the names that `describe workload` accepts, for `-o name`.
pub fn names(workloads: &[&Workload]) -> Vec<String> {
    let name = |workload: &&Workload| {
        format!(
            "{}/{}/{}",
            clean(&workload.top.namespace),
            plain_name(&workload.top.kind),
            plain_name(&workload.top.name)
        )
    };
    workloads.iter().map(name).collect()
}

/// The values that filters accept.
#[derive(JsonSchema, Serialize)]
pub struct WorkloadMetadata {
    namespaces: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

pub fn metadata(workloads: &[Workload]) -> WorkloadMetadata {
    WorkloadMetadata {
        namespaces: workloads
            .iter()
            .map(|workload| workload.top.namespace.clone())
            .collect(),
        kinds: workloads
            .iter()
            .map(|workload| workload.top.kind.clone())
            .collect(),
    }
}

pub fn metadata_text(metadata: &WorkloadMetadata) -> String {
    let line = |name: &str, values: &BTreeSet<String>| {
        status_line(
            name,
            &values
                .iter()
                .map(|value| clean(value).into_owned())
                .collect::<Vec<_>>()
                .join(", "),
        )
    };
    line("namespaces", &metadata.namespaces) + &line("kinds", &metadata.kinds)
}
