//! Renders nodes as documents. Unknown is null, never 0.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::coverage;
use crate::format::coverage::{Coverage, rounded};
use crate::format::text::clean;
use gpuctl_core::model::values::quantity;
use gpuctl_core::model::{Celsius, Percent, Watts};
use gpuctl_core::model::{Count, DeviceId, GpuType, NodeUsage, Reading};

/// A page of nodes.
#[derive(JsonSchema, Serialize)]
pub struct NodeList {
    pub total: usize,
    pub items: Vec<NodeItem>,
    /// `null` without metrics.
    coverage: Option<Coverage>,
}

/// One node; counts of GPUs are whole devices, slices stand apart.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeItem {
    pub node_name: String,
    /// `null` when the node may not be seen.
    status: Option<&'static str>,
    /// Why it is not active.
    reason: Option<String>,
    /// Whole devices that it offers.
    gpu_total: u64,
    /// Whole devices that pods hold; `null` when the pods of all namespaces may not be listed.
    gpu_used: Option<u64>,
    /// Whole devices that nobody holds.
    gpu_free: Option<u64>,
    gpu_slices: BTreeMap<String, SliceItem>,
    /// Pools that it belongs to.
    bound_pools: Vec<String>,
    /// CPUs of the machine, as Kubernetes writes them.
    cpu: Option<String>,
    /// Memory of the machine, with its unit.
    memory: Option<String>,
    /// As `resources.gpu-type` is written: `a100-80g`; `null` with several types.
    gpu_type: Option<GpuType>,
    /// Mean in percent over the devices that a pod holds and that were sampled.
    gpu_utilization: Option<Percent>,
    /// Devices behind the means.
    gpu_sampled: u64,
    /// Memory of its devices in use and in all, with the unit.
    memory_usage: Option<String>,
    created_at: Option<Timestamp>,
}

/// Slices of one profile.
#[derive(Clone, Copy, JsonSchema, Serialize)]
pub struct SliceItem {
    total: u64,
    used: Option<u64>,
}

impl From<Count> for SliceItem {
    fn from(count: Count) -> Self {
        Self {
            total: count.total,
            used: count.used,
        }
    }
}

/// Returns the slices of a node or of several.
pub fn slices(found: &BTreeMap<String, Count>) -> BTreeMap<String, SliceItem> {
    found
        .iter()
        .map(|(name, count)| (name.clone(), (*count).into()))
        .collect()
}

impl From<&NodeUsage> for NodeItem {
    fn from(host: &NodeUsage) -> Self {
        Self {
            node_name: host.name().to_owned(),
            status: host.health.known(),
            reason: host.reason.clone(),
            gpu_total: host.gpus.total,
            gpu_used: host.gpus.used,
            gpu_free: host.gpus.free(),
            gpu_slices: slices(&host.slices),
            bound_pools: host
                .details
                .node
                .pool()
                .map(ToOwned::to_owned)
                .into_iter()
                .collect(),
            cpu: host.details.capacity.get("cpu").cloned(),
            memory: memory(host.details.capacity.get("memory")),
            gpu_type: host.gpu_type(),
            gpu_utilization: host.figures().utilization.map(rounded),
            gpu_sampled: host.figures().sampled,
            memory_usage: coverage::memory_of(&host.figures()),
            created_at: host.details.created_at,
        }
    }
}

/// Formats `263842964Ki` in the largest unit that loses nothing.
pub(crate) fn memory(text: Option<&String>) -> Option<String> {
    text.and_then(|text| quantity::whole(text))
        .map(quantity::binary)
}

pub fn list(hosts: &[&NodeUsage], total: usize, coverage: Option<Coverage>) -> NodeList {
    NodeList {
        total,
        items: hosts.iter().map(|host| NodeItem::from(*host)).collect(),
        coverage,
    }
}

/// Returns the names for `-o name`.
pub fn names(hosts: &[&NodeUsage]) -> Vec<String> {
    hosts
        .iter()
        .map(|host| format!("{}", clean(host.name())))
        .collect()
}

/// A device of a node, or an instance of one that is cut. Which of several is taken is known from
/// metrics alone.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuItem {
    pub(crate) gpu_id: String,
    pub(crate) r#type: Option<GpuType>,
    pub(crate) status: &'static str,
    /// Percent.
    pub(crate) utilization: Option<Percent>,
    pub(crate) memory_usage: Option<String>,
    /// As its exporter calls it.
    model: Option<String>,
    uuid: Option<String>,
    pub(crate) power_watts: Option<Watts>,
    pub(crate) temperature_celsius: Option<Celsius>,
    /// Why it is broken.
    pub(crate) fault: Option<String>,
    /// True when its newest sample is too old to mean anything.
    pub(crate) stale: bool,
    pub(crate) holders: Vec<HolderKey>,
}

/// A pod.
#[derive(JsonSchema, Serialize)]
pub(crate) struct HolderKey {
    pub namespace: String,
    pub pod: String,
}

/// Returns the devices of a node, one by one: those that are measured, and those that only the node
/// counts.
pub fn gpus(host: &NodeUsage) -> Vec<GpuItem> {
    let unmeasured = match host.gpus.used {
        Some(0) => "free",
        Some(used) if used >= host.gpus.total => "used",
        _ => "unknown",
    };
    let mut items: Vec<GpuItem> = host
        .devices
        .iter()
        .flatten()
        .map(|reading| measured(host, reading))
        .collect();
    let known: Vec<u32> = host
        .devices
        .iter()
        .flatten()
        .filter(|reading| reading.slice.is_none())
        .map(|reading| reading.index)
        .collect();
    let types = host
        .types
        .iter()
        .flat_map(|(kind, count)| std::iter::repeat_n(kind, usize::try_from(*count).unwrap_or(0)));
    let rest = types
        .skip(known.len())
        .zip((0_u32..).filter(|index| !known.contains(index)));
    items.extend(rest.map(|(kind, index)| {
        GpuItem {
            gpu_id: DeviceId::whole(index).to_string(),
            r#type: GpuType::parse(kind)
                .filter(|_| kind != gpuctl_core::model::counting::node_usage::UNTYPED),
            status: unmeasured,
            utilization: None,
            memory_usage: None,
            model: None,
            uuid: None,
            power_watts: None,
            temperature_celsius: None,
            fault: None,
            stale: false,
            holders: Vec::new(),
        }
    }));
    items
}

fn measured(host: &NodeUsage, reading: &Reading) -> GpuItem {
    let by_model = || reading.model.as_deref().and_then(GpuType::parse);
    GpuItem {
        gpu_id: reading.id().to_string(),
        r#type: host.gpu_type().or_else(by_model),
        status: match reading.held {
            Some(true) => "used",
            Some(false) => "free",
            None => "unknown",
        },
        utilization: reading.utilization.map(rounded),
        memory_usage: coverage::memory(reading.memory_used, reading.memory_total),
        model: reading.model.clone(),
        uuid: reading.uuid.clone(),
        power_watts: reading.power.map(rounded),
        temperature_celsius: reading.temperature.map(rounded),
        fault: reading.fault.clone(),
        stale: reading.stale,
        holders: reading
            .holders
            .iter()
            .map(|(namespace, pod)| HolderKey {
                namespace: namespace.clone(),
                pod: pod.clone(),
            })
            .collect(),
    }
}

/// `get nodes --gpu-detail`.
#[derive(JsonSchema, Serialize)]
pub struct DetailList {
    total: usize,
    items: Vec<DetailItem>,
    coverage: Option<Coverage>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct DetailItem {
    node_name: String,
    gpu_count: u64,
    gpus: Vec<GpuItem>,
    gpu_slices: BTreeMap<String, SliceItem>,
}

pub fn details(hosts: &[&NodeUsage], total: usize, coverage: Option<Coverage>) -> DetailList {
    let item = |host: &&NodeUsage| DetailItem {
        node_name: host.name().to_owned(),
        gpu_count: host.gpus.total,
        gpus: gpus(host),
        gpu_slices: slices(&host.slices),
    };
    DetailList {
        total,
        items: hosts.iter().map(item).collect(),
        coverage,
    }
}
