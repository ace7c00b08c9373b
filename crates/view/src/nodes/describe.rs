//! Renders `describe node`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::values::quantity;
use gpuctl_core::model::{Celsius, GpuCount, GpuType, Holder, NodeHealth, NodeUsage, Watts};

use super::document::{GpuItem, SliceItem, gpus, memory, slices};
use crate::format::coverage;
use crate::format::table::{Table, left, percentages, right};
use crate::format::text::{age, clean, or_dash, paint, status_line, wrapped};
use crate::{Format, TextStyle};

/// Returns one node.
pub fn text(host: &NodeUsage, look: TextStyle, now: Timestamp) -> String {
    let node = &host.details.node;
    let color = match host.health {
        NodeHealth::Active => colored::Color::Green,
        NodeHealth::Maintaining => colored::Color::Yellow,
        NodeHealth::Faulty => colored::Color::Red,
        NodeHealth::Unknown => colored::Color::BrightBlack,
    };
    let why = host
        .reason
        .as_deref()
        .map_or(String::new(), |why| format!(" {}", clean(why)));
    let status = paint(&format!("{}{why}", host.health.word()), Some(color), look);
    let pool = node.pool().map_or_else(
        || "no pool".to_owned(),
        |pool| format!("pool {}", clean(pool)),
    );
    let mut text = format!("{}   {status}   {pool}\n", clean(&node.name));
    let mut line =
        |name: &str, value: String| text.push_str(&status_line(name, &wrapped(&value, 15, look)));
    let types: Vec<String> = host
        .types
        .iter()
        .map(|(kind, count)| format!("{count} × {}", clean(kind)))
        .collect();
    line(
        "GPUs",
        match host.gpus.total {
            0 => "none whole".to_owned(),
            _ => format!(
                "{}: {} held, {} free",
                types.join(", "),
                or_dash(host.gpus.used),
                or_dash(host.gpus.free())
            ),
        },
    );
    if let Some(use_of) = coverage::use_of(&host.figures(), host.gpus.used.unwrap_or(0)) {
        line("GPU use", use_of);
    }
    for (name, count) in &host.slices {
        line(
            "slices",
            format!(
                "{} × {}: {} held, {} free",
                count.total,
                clean(name),
                or_dash(count.used),
                or_dash(count.free())
            ),
        );
    }
    let cpu = |milli: Option<f64>| {
        milli.map_or_else(|| "-".to_owned(), |milli| format!("{:.1}", milli / 1000.0))
    };
    let total = host.capacity_milli("cpu").map(|milli| milli as f64);
    line(
        "CPU",
        format!(
            "{} of {} requested",
            cpu(host.cpu_used_milli.map(|milli| milli as f64)),
            cpu(total)
        ),
    );
    let gib = |bytes: Option<u64>| {
        bytes.map_or_else(
            || "-".to_owned(),
            |bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 30)),
        )
    };
    let memory = host
        .details
        .capacity
        .get("memory")
        .and_then(|text| quantity::whole(text));
    line(
        "memory",
        format!(
            "{} of {} GiB requested",
            gib(host.memory_used_bytes),
            gib(memory)
        ),
    );
    let bad: Vec<String> = host
        .details
        .conditions
        .iter()
        .filter(|condition| (condition.kind == "Ready") == (condition.status != "True"))
        .map(|condition| {
            format!(
                "{} {} ({})",
                clean(&condition.kind),
                clean(&condition.status),
                clean(&condition.reason)
            )
        })
        .collect();
    if !bad.is_empty() {
        line("conditions", bad.join(", "));
    }
    let taints: Vec<String> = node
        .taints
        .iter()
        .map(|taint| format!("{}:{}", clean(&taint.key), clean(&taint.effect)))
        .collect();
    if !taints.is_empty() {
        line("taints", taints.join(", "));
    }
    let kernel = Some(&host.details.kernel)
        .filter(|kernel| !kernel.is_empty())
        .map(|kernel| format!("kernel {}", clean(kernel)));
    let image = Some(clean(&host.details.os_image).into_owned()).filter(|image| !image.is_empty());
    let system: Vec<String> = image.into_iter().chain(kernel).collect();
    if !system.is_empty() {
        line("system", system.join(", "));
    }
    line(
        "created",
        format!("{} ago", age(host.details.created_at, now)),
    );
    if !host.holders.is_empty() {
        let mut table = Table::new([left("HOLDERS"), left("JOB"), right("GPUS"), left("SLICES")]);
        for holder in &host.holders {
            let slices: Vec<String> = holder
                .slices
                .iter()
                .map(|(name, count)| format!("{count} {name}"))
                .collect();
            table.row(vec![
                format!("{}/{}", holder.namespace, holder.pod).into(),
                holder.job.as_deref().unwrap_or_default().to_owned().into(),
                holder.gpus.to_string().into(),
                slices.join(", ").into(),
            ]);
        }
        text.push_str(&table.show(Format::Table, true, look));
    }
    if host
        .devices
        .as_ref()
        .is_some_and(|devices| !devices.is_empty())
    {
        let mut table = Table::new([
            left("DEVICES"),
            left("STATUS"),
            percentages("UTIL"),
            right("MEMORY"),
            right("WATTS"),
            right("TEMP"),
            left("HOLDER").yielding(),
            left("FAULT"),
        ]);
        for gpu in gpus(host) {
            let whole = |value: f64| format!("{value:.0}");
            let holders: Vec<String> = gpu
                .holders
                .iter()
                .map(|holder| format!("{}/{}", holder.namespace, holder.pod))
                .collect();
            table.row(vec![
                gpu.gpu_id.into(),
                if gpu.stale {
                    "no fresh samples"
                } else {
                    gpu.status
                }
                .into(),
                coverage::percent(gpu.utilization).into(),
                gpu.memory_usage.unwrap_or_default().into(),
                or_dash(gpu.power_watts.map(|Watts(watts)| whole(watts))).into(),
                or_dash(
                    gpu.temperature_celsius
                        .map(|Celsius(degrees)| whole(degrees)),
                )
                .into(),
                holders.join(",").into(),
                gpu.fault.unwrap_or_default().into(),
            ]);
        }
        text.push_str(&table.show(Format::Table, true, look));
    }
    text.push_str("LABELS\n");
    for (key, value) in &node.labels {
        text.push_str(&format!("  {}={}\n", clean(key), clean(value)));
    }
    text
}

/// A job on a node.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningJob {
    pub job_id: String,
    pub name: String,
    pub namespace: String,
    pub gpu: GpuCount,
}

/// Jobs of ours among holders, with what they hold there.
pub fn jobs<'a>(holders: impl Iterator<Item = &'a Holder>) -> Vec<RunningJob> {
    let mut held: BTreeMap<(&str, &str), GpuCount> = BTreeMap::new();
    for holder in holders {
        if let Some(job) = &holder.job {
            *held.entry((&holder.namespace, job)).or_default() += holder.gpus;
        }
    }
    let item = |((namespace, job), gpu): ((&str, &str), GpuCount)| RunningJob {
        job_id: job.to_owned(),
        name: job.to_owned(),
        namespace: namespace.to_owned(),
        gpu,
    };
    held.into_iter().map(item).collect()
}

/// `describe node -o json`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDocument {
    node_name: String,
    status: Option<&'static str>,
    reason: Option<String>,
    k8s_status: KubernetesStatus,
    resources: NodeResources,
    gpu_type: Option<GpuType>,
    gpu_detail: Vec<GpuItem>,
    gpu_slices: BTreeMap<String, SliceItem>,
    labels: Vec<LabelItem>,
    taints: Vec<String>,
    bound_pools: Vec<String>,
    running_jobs: Vec<RunningJob>,
    holders: Vec<HolderItem>,
    created_at: Option<Timestamp>,
    last_updated_at: Option<Timestamp>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct KubernetesStatus {
    conditions: Vec<ConditionItem>,
    kernel_version: String,
    os_image: String,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionItem {
    r#type: String,
    status: String,
    reason: String,
    message: String,
    last_heartbeat_time: Option<Timestamp>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeResources {
    /// Whole or part of CPUs.
    cpu_total: Option<f64>,
    cpu_used: Option<f64>,
    memory_total: Option<String>,
    memory_used: Option<String>,
    gpu_total: u64,
    gpu_used: Option<u64>,
    gpu_free: Option<u64>,
}

#[derive(JsonSchema, Serialize)]
pub struct LabelItem {
    pub key: String,
    pub value: String,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct HolderItem {
    namespace: String,
    pod: String,
    job_id: Option<String>,
    gpu: GpuCount,
    gpu_slices: BTreeMap<String, u64>,
}

fn taints(host: &NodeUsage) -> Vec<String> {
    let text = |taint: &gpuctl_core::model::Taint| match &taint.value {
        Some(value) if !value.is_empty() => format!("{}={value}:{}", taint.key, taint.effect),
        _ => format!("{}:{}", taint.key, taint.effect),
    };
    host.details.node.taints.iter().map(text).collect()
}

pub fn document(host: &NodeUsage) -> NodeDocument {
    let node = &host.details.node;
    let condition = |condition: &gpuctl_core::model::HostCondition| ConditionItem {
        r#type: condition.kind.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        last_heartbeat_time: condition.heartbeat_at,
    };
    NodeDocument {
        node_name: node.name.clone(),
        status: host.health.known(),
        reason: host.reason.clone(),
        k8s_status: KubernetesStatus {
            conditions: host.details.conditions.iter().map(condition).collect(),
            kernel_version: host.details.kernel.clone(),
            os_image: host.details.os_image.clone(),
        },
        resources: NodeResources {
            cpu_total: host
                .capacity_milli("cpu")
                .map(|milli| milli as f64 / 1000.0),
            cpu_used: host.cpu_used_milli.map(|milli| milli as f64 / 1000.0),
            memory_total: memory(host.details.capacity.get("memory")),
            memory_used: host.memory_used_bytes.map(quantity::binary),
            gpu_total: host.gpus.total,
            gpu_used: host.gpus.used,
            gpu_free: host.gpus.free(),
        },
        gpu_type: host.gpu_type(),
        gpu_detail: gpus(host),
        gpu_slices: slices(&host.slices),
        labels: node
            .labels
            .iter()
            .map(|(key, value)| LabelItem {
                key: key.clone(),
                value: value.clone(),
            })
            .collect(),
        taints: taints(host),
        bound_pools: node.pool().map(ToOwned::to_owned).into_iter().collect(),
        running_jobs: jobs(host.holders.iter()),
        holders: host
            .holders
            .iter()
            .map(|holder| HolderItem {
                namespace: holder.namespace.to_string(),
                pod: holder.pod.to_string(),
                job_id: holder.job.as_deref().map(ToOwned::to_owned),
                gpu: holder.gpus,
                gpu_slices: holder.slices.clone(),
            })
            .collect(),
        created_at: host.details.created_at,
        last_updated_at: host
            .details
            .conditions
            .iter()
            .filter_map(|condition| condition.heartbeat_at)
            .max(),
    }
}
