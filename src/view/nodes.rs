//! Nodes as documents: what a node offers, who holds it, and whether it is well. A count that is not known is null, never 0.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::model::{Count, HostUse, quantity};

use super::text::clean;

/// A page of nodes.
#[derive(Serialize)]
pub struct NodeList {
    pub total: usize,
    pub items: Vec<NodeItem>,
}

/// One node in the contract's words; counts of GPUs are whole devices, slices stand apart.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeItem {
    pub node_name: String,
    /// `null` when the node may not be seen.
    status: Option<&'static str>,
    reason: Option<String>,
    gpu_total: u64,
    gpu_used: Option<u64>,
    gpu_free: Option<u64>,
    gpu_slices: BTreeMap<String, SliceItem>,
    bound_pools: Vec<String>,
    cpu: Option<String>,
    memory: Option<String>,
    gpu_type: Option<String>,
    gpu_utilization: Option<f64>,
    created_at: Option<Timestamp>,
}

/// Slices of one profile.
#[derive(Clone, Copy, Serialize)]
pub struct SliceItem {
    total: u64,
    used: Option<u64>,
}

impl From<Count> for SliceItem {
    fn from(count: Count) -> Self {
        Self { total: count.total, used: count.used }
    }
}

/// The slices of a node or of several.
#[must_use]
pub fn slices(found: &BTreeMap<String, Count>) -> BTreeMap<String, SliceItem> {
    found.iter().map(|(name, count)| (name.clone(), (*count).into())).collect()
}

impl From<&HostUse> for NodeItem {
    fn from(host: &HostUse) -> Self {
        Self {
            node_name: host.name().to_owned(),
            status: host.health.known(),
            reason: host.reason.clone(),
            gpu_total: host.gpus.total,
            gpu_used: host.gpus.used,
            gpu_free: host.gpus.free(),
            gpu_slices: slices(&host.slices),
            bound_pools: host.host.node.pool().map(ToOwned::to_owned).into_iter().collect(),
            cpu: host.host.capacity.get("cpu").cloned(),
            memory: memory(host.host.capacity.get("memory")),
            gpu_type: host.gpu_type(),
            gpu_utilization: None,
            created_at: host.host.created_at,
        }
    }
}

/// `263842964Ki` as the largest unit that loses nothing.
pub(super) fn memory(text: Option<&String>) -> Option<String> {
    text.and_then(|text| quantity::whole(text)).map(quantity::binary)
}

#[must_use]
pub fn list(hosts: &[&HostUse], total: usize) -> NodeList {
    NodeList { total, items: hosts.iter().map(|host| NodeItem::from(*host)).collect() }
}

/// `-o name`.
#[must_use]
pub fn names(hosts: &[&HostUse]) -> String {
    hosts.iter().map(|host| format!("{}\n", clean(host.name()))).collect()
}

/// A device of a node. Which of several is taken is not known without a metrics source.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuItem {
    pub(super) gpu_id: String,
    pub(super) r#type: Option<String>,
    pub(super) status: &'static str,
    utilization: Option<f64>,
    memory_usage: Option<String>,
}

/// The devices of a node, one by one.
#[must_use]
pub fn gpus(host: &HostUse) -> Vec<GpuItem> {
    let status = match host.gpus.used {
        Some(0) => "free",
        Some(used) if used >= host.gpus.total => "used",
        _ => "unknown",
    };
    let types = host.types.iter().flat_map(|(kind, count)| std::iter::repeat_n(kind, usize::try_from(*count).unwrap_or(0)));
    let item = |(index, kind): (usize, &String)| GpuItem {
        gpu_id: format!("gpu-{index}"),
        r#type: Some(kind.clone()).filter(|kind| kind != crate::model::inventory::UNTYPED),
        status,
        utilization: None,
        memory_usage: None,
    };
    types.enumerate().map(item).collect()
}

/// `get nodes --gpu-detail`.
#[derive(Serialize)]
pub struct DetailList {
    total: usize,
    items: Vec<DetailItem>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DetailItem {
    node_name: String,
    gpu_count: u64,
    gpus: Vec<GpuItem>,
    gpu_slices: BTreeMap<String, SliceItem>,
}

#[must_use]
pub fn details(hosts: &[&HostUse], total: usize) -> DetailList {
    let item = |host: &&HostUse| DetailItem {
        node_name: host.name().to_owned(),
        gpu_count: host.gpus.total,
        gpus: gpus(host),
        gpu_slices: slices(&host.slices),
    };
    DetailList { total, items: hosts.iter().map(item).collect() }
}
