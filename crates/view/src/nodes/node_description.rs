//! Renders `describe node` as JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::facts::condition::REMEDIATION_LABEL;
use gpuctl_core::model::values::quantity;
use gpuctl_core::model::{GpuCount, GpuType, Holder, NodeUsage};

use super::document::{GpuItem, SliceItem, gpus, memory, slices};
use super::numbers::GpuNumbers;

/// A job on a node.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningJob {
    pub job_id: String,
    pub name: String,
    pub namespace: String,
    pub gpu: GpuCount,
}

/// Sums the GPUs held by each gpuctl job over the holders of one or several nodes.
pub fn jobs<'a>(holders: impl Iterator<Item = &'a Holder>) -> Vec<RunningJob> {
    let mut gpus_by_job: BTreeMap<(&str, &str), GpuCount> = BTreeMap::new();
    for holder in holders {
        if let Some(job) = &holder.job {
            *gpus_by_job.entry((&holder.namespace, job)).or_default() += holder.gpus;
        }
    }
    let item = |((namespace, job), gpu): ((&str, &str), GpuCount)| RunningJob {
        job_id: job.to_owned(),
        name: job.to_owned(),
        namespace: namespace.to_owned(),
        gpu,
    };
    gpus_by_job.into_iter().map(item).collect()
}

/// The JSON output of `describe node`.
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
    /// How far NVSentinel's repair of the node is, such as `draining`; `null` without a repair.
    remediation: Option<String>,
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
    /// Number of CPUs, which can be a fraction.
    cpu_total: Option<f64>,
    cpu_used: Option<f64>,
    memory_total: Option<String>,
    memory_used: Option<String>,
    gpu_total: u64,
    gpu_used: Option<u64>,
    /// Usable whole devices that no pod holds, which a job can get now.
    gpu_free: Option<u64>,
    #[serde(flatten)]
    numbers: GpuNumbers,
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

fn labels(host: &NodeUsage) -> Vec<LabelItem> {
    let label = |(key, value): (&String, &String)| LabelItem {
        key: key.clone(),
        value: value.clone(),
    };
    host.details.node.labels.iter().map(label).collect()
}

fn holder_item(holder: &Holder) -> HolderItem {
    HolderItem {
        namespace: holder.namespace.to_string(),
        pod: holder.pod.to_string(),
        job_id: holder.job.as_deref().map(ToOwned::to_owned),
        gpu: holder.gpus,
        gpu_slices: holder.slices.clone(),
    }
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
        status: host.health.known_word(),
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
            numbers: host.gpus.into(),
        },
        gpu_type: host.gpu_type(),
        gpu_detail: gpus(host),
        gpu_slices: slices(&host.slices),
        labels: labels(host),
        taints: taints(host),
        remediation: node.labels.get(REMEDIATION_LABEL).cloned(),
        bound_pools: node.pool().map(ToOwned::to_owned).into_iter().collect(),
        running_jobs: jobs(host.holders.iter()),
        holders: host.holders.iter().map(holder_item).collect(),
        created_at: host.details.created_at,
        // The newest heartbeat is the time at which the kubelet last updated the node's status.
        last_updated_at: host
            .details
            .conditions
            .iter()
            .filter_map(|condition| condition.heartbeat_at)
            .max(),
    }
}
