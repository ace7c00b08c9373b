//! Renders `describe workload`. In JSON, times are in Unix seconds and rates are from 0 to 1.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::facts::workload::WorkloadState;
use gpuctl_core::model::{GpuCount, Workload};

use super::consumers::ConsumerRow;
use super::list::{SOURCE, color, end, held};
use crate::format::coverage;
use crate::format::coverage::rate;
use crate::format::named_lines::NamedLines;
use crate::format::table::{Table, left, right};
use crate::format::text::{age, clean, paint, plain_name};
use crate::{Format, TextStyle};

/// A workload with all its details.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadDocument {
    api_version: String,
    kind: String,
    name: String,
    namespace: String,
    uid: String,
    gpu_allocation: BTreeMap<String, GpuCount>,
    gpu_slices: BTreeMap<String, u64>,
    gpu_allocated: GpuCount,
    gpu_requested: GpuCount,
    /// Mean utilization of the devices that it holds, from 0 to 1. Devices without a sample do not
    /// count.
    gpu_utilization: Option<f64>,
    gpu_sampled: Option<u64>,
    memory_usage: Option<String>,
    status: &'static str,
    status_color: &'static str,
    reason: Option<&'static str>,
    pods: Vec<PodItem>,
    start_time: Option<i64>,
    end_time: Option<i64>,
    source: &'static str,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodItem {
    node_name: Option<String>,
    pod_namespace: String,
    pod_name: String,
    gpu: GpuCount,
}

pub fn document(row: &ConsumerRow<'_>) -> WorkloadDocument {
    let ConsumerRow { workload, figures } = row;
    WorkloadDocument {
        api_version: workload.top.api_version.clone(),
        kind: workload.top.kind.clone(),
        name: workload.top.name.clone(),
        namespace: workload.top.namespace.clone(),
        uid: workload.top.uid.clone(),
        gpu_allocation: workload.held.clone(),
        gpu_slices: workload.slices.clone(),
        gpu_allocated: workload.gpus_held(),
        gpu_requested: workload.requested,
        gpu_utilization: figures.and_then(|figures| figures.utilization).map(rate),
        gpu_sampled: figures.map(|figures| figures.sampled),
        memory_usage: figures.as_ref().and_then(coverage::memory_of),
        status: workload.state.word(),
        status_color: workload.state.color(),
        reason: workload
            .top
            .resting
            .filter(|_| workload.state == WorkloadState::Pending),
        pods: workload
            .pods
            .iter()
            .map(|pod| PodItem {
                node_name: pod.node.as_deref().map(ToOwned::to_owned),
                pod_namespace: pod.namespace.to_string(),
                pod_name: pod.name.to_string(),
                gpu: pod.gpus,
            })
            .collect(),
        start_time: workload.started_at().map(Timestamp::as_second),
        end_time: end(workload),
        source: SOURCE,
    }
}

/// Renders a workload as text.
pub fn text(row: &ConsumerRow<'_>, style: TextStyle, now: Timestamp) -> String {
    let ConsumerRow { workload, figures } = row;
    let mut lines = NamedLines::below(heading(workload, style), style);
    let held_text = held_devices(workload);
    lines.add(
        "GPUs",
        format!("{held_text}; {} requested", workload.requested),
    );
    let usage = figures
        .as_ref()
        .and_then(|figures| coverage::usage(figures, held(workload).0));
    lines.add_known("GPU use", usage);
    lines.add("uid", clean(&workload.top.uid));
    lines.add("started", age(workload.started_at(), now));
    if let Some(ended_at) = workload.ended_at() {
        lines.add("ended", format!("{} ago", age(Some(ended_at), now)));
    }
    lines.into_text() + &pod_table(workload, style, now)
}

fn heading(workload: &Workload, style: TextStyle) -> String {
    let top = &workload.top;
    let status = match workload.trouble() {
        Some(problem) => paint(&clean(problem), Some(colored::Color::Red), style),
        None => paint(workload.state.word(), color(workload.state), style),
    };
    let resting = top
        .resting
        .map_or(String::new(), |reason| format!(" ({reason})"));
    format!(
        "{}   {} {}   {status}{resting}   {}\n",
        plain_name(&top.name),
        clean(&top.api_version),
        clean(&top.kind),
        clean(&top.namespace)
    )
}

fn held_devices(workload: &Workload) -> String {
    let devices = workload
        .held
        .iter()
        .map(|(name, GpuCount(count))| (name, count));
    let part = |(name, count): (&String, &u64)| format!("{count} × {}", clean(name));
    let parts: Vec<String> = devices.chain(&workload.slices).map(part).collect();
    if parts.is_empty() {
        "none held".to_owned()
    } else {
        parts.join(", ")
    }
}

fn pod_table(workload: &Workload, style: TextStyle, now: Timestamp) -> String {
    if workload.pods.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        left("PODS"),
        left("NODE"),
        right("GPUS"),
        right("AGE").in_csv("age_seconds"),
    ]);
    for pod in &workload.pods {
        table.row(vec![
            pod.name.to_string().into(),
            pod.node.as_deref().unwrap_or_default().into(),
            pod.gpus.to_string().into(),
            age(pod.created_at, now).into(),
        ]);
    }
    table.show(Format::Table, true, style)
}
