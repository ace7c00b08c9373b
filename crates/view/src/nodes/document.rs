//! Renders nodes as JSON. Unknown values are `null`, never 0.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::numbers::GpuNumbers;
use crate::format::coverage;
use crate::format::coverage::{Coverage, rounded};
use crate::format::row_contexts::RowContexts;
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

/// A node. GPU counts only include whole devices; slices are counted separately.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeItem {
    /// The kubeconfig context of its cluster, with `--all-contexts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    pub node_name: String,
    /// `null` when the node is not visible.
    status: Option<&'static str>,
    /// Why the node is not active.
    reason: Option<String>,
    /// Whole devices that are installed in the node: its capacity.
    gpu_total: u64,
    /// Whole devices that pods hold; `null` when the user is not allowed to list the pods of all
    /// namespaces.
    gpu_used: Option<u64>,
    /// Usable whole devices that no pod holds, which a job can get now.
    gpu_free: Option<u64>,
    #[serde(flatten)]
    numbers: GpuNumbers,
    gpu_slices: BTreeMap<String, SliceItem>,
    /// The pools that the node belongs to.
    bound_pools: Vec<String>,
    /// CPU capacity of the node, as in its status.
    cpu: Option<String>,
    /// Memory capacity of the node, with its unit.
    memory: Option<String>,
    /// GPU type as in `resources.gpu-type`, such as `a100-80g`; `null` if there are several types.
    gpu_type: Option<GpuType>,
    /// Mean utilization in percent of the whole devices that pods hold, or of the slices if pods
    /// hold no whole device. Devices without a sample do not count.
    gpu_utilization: Option<Percent>,
    /// Number of devices that the mean is based on.
    gpu_sampled: u64,
    /// Used and total memory of its devices, with the unit.
    memory_usage: Option<String>,
    created_at: Option<Timestamp>,
}

/// The slices with one profile.
#[derive(Clone, Copy, JsonSchema, Serialize)]
pub struct SliceItem {
    total: u64,
    used: Option<u64>,
    /// Slices that a job can get now.
    free: Option<u64>,
    lost: u64,
    /// Allocatable slices on nodes that accept no new pods.
    cordoned: u64,
    /// Allocatable slices that no pod holds and no job can get.
    stranded: Option<u64>,
}

impl From<Count> for SliceItem {
    fn from(count: Count) -> Self {
        Self {
            total: count.total,
            used: count.used,
            free: count.free(),
            lost: count.lost,
            cordoned: count.cordoned,
            stranded: count.stranded(),
        }
    }
}

/// Converts the slices of one or several nodes.
pub fn slices(slices: &BTreeMap<String, Count>) -> BTreeMap<String, SliceItem> {
    slices
        .iter()
        .map(|(name, count)| (name.clone(), (*count).into()))
        .collect()
}

impl From<&NodeUsage> for NodeItem {
    fn from(host: &NodeUsage) -> Self {
        Self {
            context: None,
            node_name: host.name().to_owned(),
            status: host.health.known_word(),
            reason: host.reason.clone(),
            gpu_total: host.gpus.total,
            gpu_used: host.gpus.used,
            gpu_free: host.gpus.free(),
            numbers: host.gpus.into(),
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

/// Formats a quantity, such as `263842964Ki`, in the largest unit that keeps it exact.
pub(crate) fn memory(text: Option<&String>) -> Option<String> {
    text.and_then(|text| quantity::whole(text))
        .map(quantity::binary)
}

pub fn list(
    hosts: &[&NodeUsage],
    contexts: RowContexts<'_>,
    total: usize,
    coverage: Option<Coverage>,
) -> NodeList {
    let item = |(index, host): (usize, &&NodeUsage)| NodeItem {
        context: contexts.owned(index),
        ..NodeItem::from(*host)
    };
    NodeList {
        total,
        items: hosts.iter().enumerate().map(item).collect(),
        coverage,
    }
}

pub fn names(hosts: &[&NodeUsage]) -> Vec<String> {
    hosts
        .iter()
        .map(|host| format!("{}", clean(host.name())))
        .collect()
}

/// A device of a node, or a MIG instance. If a node has several devices, only metrics show which of
/// them are held.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuItem {
    pub(crate) gpu_id: String,
    pub(crate) r#type: Option<GpuType>,
    pub(crate) status: &'static str,
    /// In percent.
    pub(crate) utilization: Option<Percent>,
    pub(crate) memory_usage: Option<String>,
    /// Model name that the exporter reports.
    model: Option<String>,
    uuid: Option<String>,
    pub(crate) power_watts: Option<Watts>,
    pub(crate) temperature_celsius: Option<Celsius>,
    /// Why the device is faulty.
    pub(crate) fault: Option<String>,
    /// True when its newest sample is older than two scrapes, so that its values are unknown.
    pub(crate) stale: bool,
    pub(crate) holders: Vec<HolderKey>,
}

/// A pod that holds a device.
#[derive(JsonSchema, Serialize)]
pub(crate) struct HolderKey {
    pub namespace: String,
    pub pod: String,
}

/// Lists the devices of a node: first those with metrics, then those that are only part of the
/// node's capacity.
pub fn gpus(host: &NodeUsage) -> Vec<GpuItem> {
    // Without metrics, a device's state is known only if all devices are held or all are free.
    let unmeasured = match host.gpus.used {
        // The devices without samples may be the lost ones.
        Some(0) if host.gpus.lost == 0 => "free",
        Some(used) if used >= host.gpus.total => "used",
        _ => "unknown",
    };
    let mut items: Vec<GpuItem> = host
        .devices
        .iter()
        .flatten()
        .map(|reading| measured(host, reading))
        .collect();
    let indexes: Vec<u32> = host
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
    // The types of the measured devices are unknown, so assign the last types to the rest.
    let remaining = types
        .skip(indexes.len())
        .zip((0_u32..).filter(|index| !indexes.contains(index)));
    items.extend(remaining.map(|(kind, index)| {
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

/// The JSON output of `get nodes --gpu-detail`.
#[derive(JsonSchema, Serialize)]
pub struct DetailList {
    total: usize,
    items: Vec<DetailItem>,
    coverage: Option<Coverage>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct DetailItem {
    /// The kubeconfig context of its cluster, with `--all-contexts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    node_name: String,
    gpu_count: u64,
    gpus: Vec<GpuItem>,
    gpu_slices: BTreeMap<String, SliceItem>,
}

pub fn details(
    hosts: &[&NodeUsage],
    contexts: RowContexts<'_>,
    total: usize,
    coverage: Option<Coverage>,
) -> DetailList {
    let item = |(index, host): (usize, &&NodeUsage)| DetailItem {
        context: contexts.owned(index),
        node_name: host.name().to_owned(),
        gpu_count: host.gpus.total,
        gpus: gpus(host),
        gpu_slices: slices(&host.slices),
    };
    DetailList {
        total,
        items: hosts.iter().enumerate().map(item).collect(),
        coverage,
    }
}
