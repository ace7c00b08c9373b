//! Renders the GPU types of a cluster with the numbers of total and free GPUs, and the pools.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::format::table::{Table, left, right};
use crate::format::text::or_dash;
use crate::{Format, TextStyle};
use gpuctl_core::model::NodeUsage;

/// The JSON output of `get gpu-type` without a node.
#[derive(JsonSchema, Serialize)]
pub struct GpuTypeList {
    total: usize,
    items: Vec<GpuTypeItem>,
}

/// A GPU type, in the form that job files use.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuTypeItem {
    pub gpu_type: String,
    nodes: u64,
    gpu_total: u64,
    /// `null` when the user is not allowed to list all pods.
    gpu_used: Option<u64>,
    gpu_free: Option<u64>,
    /// Number of GPUs on the node that has the most.
    largest_node: u64,
    pools: BTreeSet<String>,
}

/// Groups nodes by GPU type, sorted by name. A node with several types belongs to each of them.
pub fn items(hosts: &[NodeUsage]) -> Vec<GpuTypeItem> {
    let mut by_type: BTreeMap<String, Vec<&NodeUsage>> = BTreeMap::new();
    for host in hosts.iter().filter(|host| host.gpus.total > 0) {
        for kind in host.types.keys() {
            by_type.entry(kind.clone()).or_default().push(host);
        }
    }
    let item = |(gpu_type, hosts): (String, Vec<&NodeUsage>)| {
        let total = |host: &NodeUsage| host.types.get(&gpu_type).copied().unwrap_or(0);
        // On a node with several types, pods may hold GPUs of any of them. The use of these types
        // is therefore unknown.
        let single = hosts.iter().all(|host| host.types.len() == 1);
        let sum = |value_of: fn(&NodeUsage) -> Option<u64>| {
            hosts
                .iter()
                .map(|host| value_of(host))
                .sum::<Option<u64>>()
                .filter(|_| single)
        };
        GpuTypeItem {
            nodes: hosts.len() as u64,
            gpu_total: hosts.iter().map(|host| total(host)).sum(),
            gpu_used: sum(|host| host.gpus.used),
            gpu_free: sum(|host| host.gpus.free()),
            largest_node: hosts.iter().map(|host| total(host)).max().unwrap_or(0),
            pools: hosts
                .iter()
                .filter_map(|host| host.details.node.pool().map(ToOwned::to_owned))
                .collect(),
            gpu_type,
        }
    };
    by_type.into_iter().map(item).collect()
}

pub fn list(items: &[GpuTypeItem], total: usize) -> GpuTypeList {
    GpuTypeList {
        total,
        items: items.to_vec(),
    }
}

pub fn table(items: &[GpuTypeItem], format: Format, headers: bool, style: TextStyle) -> String {
    let mut table = Table::new([
        left("TYPE"),
        right("NODES"),
        right("GPUS"),
        right("USED"),
        right("FREE"),
        right("PER NODE").yielding(),
        left("POOLS").yielding(),
    ])
    .with_wide();
    for item in items {
        table.row(vec![
            item.gpu_type.clone().into(),
            item.nodes.to_string().into(),
            item.gpu_total.to_string().into(),
            or_dash(item.gpu_used).into(),
            or_dash(item.gpu_free).into(),
            item.largest_node.to_string().into(),
            item.pools
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(",")
                .into(),
        ]);
    }
    table.show(format, headers, style)
}
