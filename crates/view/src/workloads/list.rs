//! Workloads as the workloads document tells them, whoever made them: lists, one in full, and
//! consumers. Times are Unix seconds in JSON, rates 0 to 1.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::facts::workload::Standing;
use gpuctl_core::model::{Figures, GpuCount, Workload};

use crate::format::coverage;
use crate::format::coverage::{Coverage, percent, rate};
use crate::format::table::{Cell, Table, left, percentages, right};
use crate::format::text::{age, clean, paint, plain_name, status_line, wrapped};
use crate::{Format, TextStyle};

/// A workload with what its devices do.
pub struct ConsumerRow<'a> {
    pub workload: &'a Workload,
    /// `None` without metrics.
    pub figures: Option<Figures>,
}

/// A page of workloads.
#[derive(JsonSchema, Serialize)]
pub struct WorkloadList {
    data: Vec<WorkloadItem>,
    total: usize,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadItem {
    kind: String,
    name: String,
    namespace: String,
    uid: String,
    /// Whole devices that it holds now.
    gpu_allocated: GpuCount,
    /// The same by product.
    gpu_allocation: BTreeMap<String, GpuCount>,
    gpu_slices: BTreeMap<String, u64>,
    /// What it asks for, held or not.
    gpu_requested: GpuCount,
    status: &'static str,
    status_color: &'static str,
    /// `Suspended`, `ScaledToZero`.
    reason: Option<&'static str>,
    start_at: Option<i64>,
    /// 0 while it goes on; `null` when it ended and nobody wrote down when.
    end_at: Option<i64>,
    source: &'static str,
}

/// Returns Unix seconds; 0 while it goes on.
fn end(workload: &Workload) -> Option<i64> {
    if workload.has_ended() {
        workload.ended_at().map(Timestamp::as_second)
    } else {
        Some(0)
    }
}

pub fn list(found: &[&Workload], total: usize) -> WorkloadList {
    let item = |workload: &&Workload| WorkloadItem {
        kind: workload.top.kind.clone(),
        name: workload.top.name.clone(),
        namespace: workload.top.namespace.clone(),
        uid: workload.top.uid.clone(),
        gpu_allocated: workload.gpus_held(),
        gpu_allocation: workload.held.clone(),
        gpu_slices: workload.slices.clone(),
        gpu_requested: workload.requested,
        status: workload.standing.word(),
        status_color: workload.standing.color(),
        reason: workload
            .top
            .resting
            .filter(|_| workload.standing == Standing::Pending),
        start_at: workload.started_at().map(Timestamp::as_second),
        end_at: end(workload),
        source: SOURCE,
    };
    WorkloadList {
        data: found.iter().map(item).collect(),
        total,
    }
}

/// Where all of them come from.
const SOURCE: &str = "k8s";

/// Returns the state, or why a pod does not work: a word of the document would say that all is
/// well.
fn status_cell(workload: &Workload) -> Cell {
    match workload.trouble() {
        Some(trouble) => Cell::colored(trouble, Some(colored::Color::Red)),
        None => Cell::colored(workload.standing.word(), color(workload.standing)),
    }
}

fn color(standing: Standing) -> Option<colored::Color> {
    match standing {
        Standing::Running => Some(colored::Color::Green),
        Standing::Failed => Some(colored::Color::Red),
        Standing::Pending => Some(colored::Color::Yellow),
        Standing::Completed | Standing::Unknown => Some(colored::Color::BrightBlack),
    }
}

/// Returns the list for people.
pub fn table(
    found: &[&Workload],
    format: Format,
    headers: bool,
    look: TextStyle,
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
    for workload in found {
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
            Cell::age(workload.started_at(), now),
        ];
        cells.extend(wide.then(|| workload.top.uid.clone().into()));
        table.row(cells);
    }
    table.show(format, headers, look)
}

/// Devices and slices.
fn held(workload: &Workload) -> GpuCount {
    workload.gpus_held() + GpuCount(workload.slices.values().sum())
}

/// Returns the names for `-o name`, which `describe workload` accepts.
pub fn names(found: &[&Workload]) -> Vec<String> {
    let name = |workload: &&Workload| {
        format!(
            "{}/{}/{}",
            clean(&workload.top.namespace),
            plain_name(&workload.top.kind),
            plain_name(&workload.top.name)
        )
    };
    found.iter().map(name).collect()
}

/// A page of consumers.
#[derive(JsonSchema, Serialize)]
pub struct ConsumerList {
    data: Vec<ConsumerItem>,
    total: usize,
    coverage: Option<Coverage>,
}

#[derive(JsonSchema, Serialize)]
struct ConsumerItem {
    kind: String,
    name: String,
    namespace: String,
    uid: String,
    stat: Stat,
    pods: Option<Vec<String>>,
    source: &'static str,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stat {
    gpu_request: GpuCount,
    gpu_allocated: GpuCount,
    /// Mean over the devices that it holds and that were sampled.
    gpu_utilization: Option<f64>,
    gpu_sampled: Option<u64>,
}

pub fn consumers(
    rows: &[ConsumerRow<'_>],
    total: usize,
    coverage: Option<Coverage>,
) -> ConsumerList {
    let item = |row: &ConsumerRow<'_>| ConsumerItem {
        kind: row.workload.top.kind.clone(),
        name: row.workload.top.name.clone(),
        namespace: row.workload.top.namespace.clone(),
        uid: row.workload.top.uid.clone(),
        stat: Stat {
            gpu_request: row.workload.requested,
            gpu_allocated: held(row.workload),
            gpu_utilization: row
                .figures
                .and_then(|figures| figures.utilization)
                .map(rate),
            gpu_sampled: row.figures.map(|figures| figures.sampled),
        },
        pods: None,
        source: SOURCE,
    };
    ConsumerList {
        data: rows.iter().map(item).collect(),
        total,
        coverage,
    }
}

/// Consumers for people.
pub fn consumer_table(
    rows: &[ConsumerRow<'_>],
    format: Format,
    headers: bool,
    look: TextStyle,
) -> String {
    let mut table = Table::new([
        left("NAMESPACE"),
        left("KIND"),
        left("NAME"),
        left("STATUS"),
        right("REQUESTED"),
        right("HELD"),
        percentages("UTIL"),
        right("MEMORY/GPU").yielding().in_csv("memory_gib_per_gpu"),
    ])
    .with_wide();
    for ConsumerRow { workload, figures } in rows {
        table.row(vec![
            workload.top.namespace.clone().into(),
            workload.top.kind.clone().into(),
            plain_name(&workload.top.name).into_owned().into(),
            status_cell(workload),
            workload.requested.to_string().into(),
            held(workload).to_string().into(),
            percent(figures.and_then(|figures| figures.utilization)).into(),
            Cell::measured(
                figures
                    .as_ref()
                    .and_then(coverage::memory_of)
                    .unwrap_or_default(),
                figures
                    .and_then(|figures| figures.memory_used)
                    .map(|used| format!("{:.2}", used.gibibytes())),
            ),
        ]);
    }
    table.show(format, headers, look)
}

/// What filters can be set to.
#[derive(JsonSchema, Serialize)]
pub struct WorkloadMetadata {
    namespaces: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

pub fn metadata(found: &[Workload]) -> WorkloadMetadata {
    WorkloadMetadata {
        namespaces: found
            .iter()
            .map(|workload| workload.top.namespace.clone())
            .collect(),
        kinds: found
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

/// One workload in full.
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
    /// Mean over the devices that it holds and that were sampled, 0 to 1.
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
        status: workload.standing.word(),
        status_color: workload.standing.color(),
        reason: workload
            .top
            .resting
            .filter(|_| workload.standing == Standing::Pending),
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

/// Returns one workload for people.
pub fn text(row: &ConsumerRow<'_>, look: TextStyle, now: Timestamp) -> String {
    let ConsumerRow { workload, figures } = row;
    let top = &workload.top;
    let status = match workload.trouble() {
        Some(trouble) => paint(&clean(trouble), Some(colored::Color::Red), look),
        None => paint(workload.standing.word(), color(workload.standing), look),
    };
    let resting = top.resting.map_or(String::new(), |why| format!(" ({why})"));
    let mut text = format!(
        "{}   {} {}   {status}{resting}   {}\n",
        plain_name(&top.name),
        clean(&top.api_version),
        clean(&top.kind),
        clean(&top.namespace)
    );
    let mut line =
        |name: &str, value: String| text.push_str(&status_line(name, &wrapped(&value, 15, look)));
    let whole = workload
        .held
        .iter()
        .map(|(name, GpuCount(count))| (name, count));
    let part = |(name, count): (&String, &u64)| format!("{count} × {}", clean(name));
    let parts: Vec<String> = whole.chain(&workload.slices).map(part).collect();
    let holds = if parts.is_empty() {
        "none held".to_owned()
    } else {
        parts.join(", ")
    };
    line("GPUs", format!("{holds}; {} requested", workload.requested));
    if let Some(use_of) = figures
        .as_ref()
        .and_then(|figures| coverage::use_of(figures, held(workload).0))
    {
        line("GPU use", use_of);
    }
    line("uid", clean(&top.uid).into_owned());
    line("started", age(workload.started_at(), now));
    if let Some(at) = workload.ended_at() {
        line("ended", format!("{} ago", age(Some(at), now)));
    }
    if !workload.pods.is_empty() {
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
        text.push_str(&table.show(Format::Table, true, look));
    }
    text
}
