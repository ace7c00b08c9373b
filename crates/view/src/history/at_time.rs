//! Renders nodes, jobs and devices at a time in the past. Fields are named as in the current lists,
//! and fields that history does not record are omitted.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::values::natural;
use gpuctl_core::model::{GpuCount, Percent};
use gpuctl_core::stats::history::allocations::Allocation;
use gpuctl_core::stats::history::top_owner::TopOwner;

use super::snapshot::PointInTime;
use crate::format::coverage::{percent, rounded};
use crate::format::parts::PartAt;
use crate::format::table::{Table, left, percentages, right};
use crate::format::text::or_dash;
use crate::{Format, TextStyle};

/// A list at a time in the past.
#[derive(JsonSchema, Serialize)]
pub struct ListAt<T> {
    total: usize,
    at: Timestamp,
    pub items: Vec<T>,
}

impl<T> ListAt<T> {
    fn new(time: Timestamp, items: Vec<T>) -> Self {
        Self {
            total: items.len(),
            at: time,
            items,
        }
    }

    /// Keeps the items that match `filter`, and updates the count.
    #[must_use]
    pub fn only(mut self, filter: impl Fn(&T) -> bool) -> Self {
        self.items.retain(filter);
        Self::new(self.at, self.items)
    }
}

/// A node that had GPUs.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAt {
    pub node_name: String,
    gpu_total: u64,
    /// MIG instances, partitions and shares, which are not included in the counts of GPUs.
    gpu_slices: BTreeMap<String, SliceAt>,
    /// `null` when no allocation was recorded at that time.
    gpu_used: Option<u64>,
    /// Devices that no pod held. History records neither cordons nor lost devices.
    gpu_free: Option<u64>,
    /// Mean utilization of the held devices over the previous five minutes, in percent.
    gpu_utilization: Option<Percent>,
    holders: Option<Vec<HolderAt>>,
}

/// Parts of one kind at that time.
#[derive(JsonSchema, Serialize)]
struct SliceAt {
    total: u64,
    /// `null` when no allocation was recorded at that time.
    used: Option<u64>,
}

/// A pod that held GPUs.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HolderAt {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) workload: String,
    pub(super) workload_type: String,
    gpu: GpuCount,
    /// Parts of devices, as in `gpuSlices` of the node.
    gpu_slices: BTreeMap<String, u64>,
}

impl From<&Allocation> for HolderAt {
    fn from(tenure: &Allocation) -> Self {
        let Allocation {
            pod: (namespace, pod),
            top,
            gpus,
            part,
            ..
        } = tenure;
        Self {
            namespace: namespace.clone(),
            pod: pod.clone(),
            workload: top.name.clone(),
            workload_type: top.kind.clone(),
            gpu: *gpus,
            gpu_slices: part
                .iter()
                .map(|(part, units)| (part.name.clone(), *units))
                .collect(),
        }
    }
}

/// A workload that requested GPUs.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobAt {
    pub job_id: String,
    name: String,
    pub namespace: String,
    workload_type: String,
    pool: Option<String>,
    status: &'static str,
    gpu: GpuCount,
    gpu_held: GpuCount,
    /// Parts of devices that it requested, as in `gpuSlices` of nodes.
    gpu_slices: BTreeMap<String, u64>,
    /// The value of the label for the user. `null` when it was not recorded.
    pub user: Option<String>,
    pods_running: usize,
    gpu_utilization: Option<Percent>,
}

/// Lists every node that had GPUs at that time.
pub fn nodes(then: &PointInTime<'_>) -> ListAt<NodeAt> {
    let held = then.held();
    let node = |name: &String| {
        let total = then.ledger.node_capacities.get(name).copied().unwrap_or(0);
        let on_node: Option<Vec<usize>> = held.as_ref().map(|held| {
            held.iter()
                .copied()
                .filter(|index| then.tenure(*index).node == *name)
                .collect()
        });
        let used = on_node.as_ref().map(|on_node| then.gpus(on_node));
        NodeAt {
            node_name: name.clone(),
            gpu_total: total,
            gpu_slices: node_slices(then, name, on_node.as_deref()),
            gpu_used: used.map(|GpuCount(used)| used),
            gpu_free: used.map(|GpuCount(used)| total.saturating_sub(used)),
            gpu_utilization: on_node
                .as_ref()
                .and_then(|on_node| then.utilization(on_node))
                .map(rounded),
            holders: on_node.map(|on_node| {
                on_node
                    .iter()
                    .map(|index| then.tenure(*index).into())
                    .collect()
            }),
        }
    };
    let names: BTreeSet<&String> = then
        .ledger
        .node_capacities
        .keys()
        .chain(then.ledger.node_part_capacities.keys())
        .collect();
    let items = natural::sorted(names).into_iter().map(node);
    ListAt::new(then.time, items.collect())
}

/// Counts the parts of a node's devices, and those that pods held.
fn node_slices(
    then: &PointInTime<'_>,
    node: &str,
    held: Option<&[usize]>,
) -> BTreeMap<String, SliceAt> {
    let units_held = held.map(|held| slices(&then.parts(held)));
    let node_parts = then.ledger.node_part_capacities.get(node);
    let names: BTreeSet<&String> = node_parts
        .into_iter()
        .flat_map(BTreeMap::keys)
        .chain(units_held.iter().flat_map(BTreeMap::keys))
        .collect();
    let count = |name: &String| SliceAt {
        total: node_parts
            .and_then(|totals| totals.get(name))
            .copied()
            .unwrap_or(0),
        used: units_held
            .as_ref()
            .map(|units_held| units_held.get(name).copied().unwrap_or(0)),
    };
    names
        .into_iter()
        .map(|name| (name.clone(), count(name)))
        .collect()
}

fn slices(parts: &[PartAt]) -> BTreeMap<String, u64> {
    parts
        .iter()
        .map(|part| (part.part.clone(), part.allocated))
        .collect()
}

/// Lists the workloads that requested GPUs at that time.
pub fn jobs(then: &PointInTime<'_>) -> ListAt<JobAt> {
    let Some(slot) = then.slot() else {
        return ListAt::new(then.time, Vec::new());
    };
    let mut tops: BTreeMap<&TopOwner, Vec<usize>> = BTreeMap::new();
    for (index, tenure) in then
        .ledger
        .allocations
        .iter()
        .enumerate()
        .filter(|(_, tenure)| tenure.requested[slot])
    {
        tops.entry(&tenure.top).or_default().push(index);
    }
    let job = |(top, indexes): (&TopOwner, Vec<usize>)| {
        let tenures = || indexes.iter().map(|index| then.tenure(*index));
        let held: Vec<usize> = indexes
            .iter()
            .copied()
            .filter(|index| then.tenure(*index).held[slot])
            .collect();
        let running: BTreeSet<&(String, String)> = tenures()
            .filter(|tenure| {
                tenure
                    .phase
                    .as_ref()
                    .is_some_and(|(_, phase)| phase == "Running")
            })
            .map(|tenure| &tenure.pod)
            .collect();
        let label =
            |key: &str| tenures().find_map(|tenure| tenure.labels.as_ref()?.get(key).cloned());
        JobAt {
            job_id: top.name.clone(),
            name: top.name.clone(),
            namespace: top.namespace.clone(),
            workload_type: top.kind.clone(),
            // kube-state-metrics replaces `/` with `_` in the label `gpuctl/pool`.
            pool: label("gpuctl_pool"),
            status: if running.is_empty() {
                "pending"
            } else {
                "running"
            },
            gpu: then.gpus(&indexes),
            gpu_held: then.gpus(&held),
            gpu_slices: slices(&then.parts(&indexes)),
            user: label("gpuctl_user"),
            pods_running: running.len(),
            gpu_utilization: then.utilization(&held).map(rounded),
        }
    };
    ListAt::new(then.time, tops.into_iter().map(job).collect())
}

pub fn node_table(items: &[NodeAt], format: Format, headers: bool, style: TextStyle) -> String {
    let columns = [
        left("NAME"),
        right("GPUS"),
        right("USED"),
        right("FREE"),
        percentages("UTIL"),
        left("HOLDERS").yielding(),
    ];
    let mut table = Table::new(columns);
    for item in items {
        let holders = item
            .holders
            .iter()
            .flatten()
            .map(|holder| format!("{}/{}", holder.namespace, holder.pod));
        table.row(vec![
            item.node_name.as_str().into(),
            item.gpu_total.to_string().into(),
            or_dash(item.gpu_used).into(),
            or_dash(item.gpu_free).into(),
            percent(item.gpu_utilization).into(),
            holders.collect::<Vec<_>>().join(" ").into(),
        ]);
    }
    table.show(format, headers, style)
}

pub fn job_table(items: &[JobAt], format: Format, headers: bool, style: TextStyle) -> String {
    let mut table = Table::new([
        left("NAMESPACE"),
        left("NAME"),
        left("KIND"),
        left("STATUS"),
        right("GPUS"),
        right("HELD"),
        percentages("UTIL"),
    ]);
    for item in items {
        table.row(vec![
            item.namespace.as_str().into(),
            item.name.as_str().into(),
            item.workload_type.as_str().into(),
            item.status.into(),
            item.gpu.to_string().into(),
            item.gpu_held.to_string().into(),
            percent(item.gpu_utilization).into(),
        ]);
    }
    table.show(format, headers, style)
}
