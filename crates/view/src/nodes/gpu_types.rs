//! Renders the GPU types of a cluster with the numbers of total and free GPUs, and the pools.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::numbers::WITHHELD;
use crate::format::table::{Cell, Table, left, right};
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
    /// Usable GPUs that no pod holds, which a job can get now.
    gpu_free: Option<u64>,
    /// Installed GPUs that are out of service; `null` when a node has several types.
    gpu_lost: Option<u64>,
    /// Allocatable GPUs on nodes that accept no new pods; `null` when a node has several types.
    gpu_cordoned: Option<u64>,
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
            gpu_lost: sum(|host| Some(host.gpus.lost)),
            gpu_cordoned: sum(|host| Some(host.gpus.cordoned)),
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
    let wide = matches!(format, Format::Wide | Format::Csv);
    let mut columns = vec![
        left("TYPE"),
        right("NODES"),
        right("GPUS"),
        right("USED"),
        right("FREE"),
    ];
    columns.extend(wide.then_some(WITHHELD).into_iter().flatten());
    columns.extend([right("PER NODE").yielding(), left("POOLS").yielding()]);
    let mut table = Table::new(columns).with_wide();
    for item in items {
        let mut cells = vec![
            item.gpu_type.clone().into(),
            item.nodes.to_string().into(),
            item.gpu_total.to_string().into(),
            or_dash(item.gpu_used).into(),
            or_dash(item.gpu_free).into(),
        ];
        let withheld = || [item.gpu_lost, item.gpu_cordoned].map(or_dash);
        cells.extend(wide.then(withheld).into_iter().flatten().map(Cell::from));
        cells.extend([
            item.largest_node.to_string().into(),
            item.pools
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(",")
                .into(),
        ]);
        table.row(cells);
    }
    table.show(format, headers, style)
}
