//! Renders snapshots: the pods that held GPUs at a time in the past.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::hourly::id;
use crate::format::coverage::{percent, rounded};
use crate::format::csv;
use crate::format::parts::{PartAt, cell};
use crate::format::table::{Table, left, percentages, right};
use crate::format::text::{count, or_dash};
use crate::{Format, TextStyle};
use gpuctl_core::model::{GpuCount, Percent};
use gpuctl_core::stats::history::allocations::{Allocation, AllocationHistory};
use gpuctl_core::stats::history::collectors::WINDOW;
use gpuctl_core::stats::history::top_owner::TopOwner;
use gpuctl_core::stats::history::usage::{HolderSamples, Usage, windows};

/// UIDs of existing top-level owners, by namespace, kind and name.
pub type Uids = BTreeMap<(String, String, String), String>;

/// A point in time, with the history around it.
pub struct PointInTime<'a> {
    pub cluster: &'a str,
    pub time: Timestamp,
    pub ledger: &'a AllocationHistory,
    pub usage: &'a Usage,
}

/// Options for the details of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Details<'a> {
    pub uids: &'a Uids,
    /// Annotation key, as kube-state-metrics exports it.
    pub annotation: Option<&'a str>,
}

impl PointInTime<'_> {
    /// Returns the slot that ends at this time, or the last observed slot before it. Returns `None`
    /// if that slot began more than five minutes earlier.
    pub(crate) fn slot(&self) -> Option<usize> {
        // Slots are half-open, so the slot that ends at this time contains the millisecond before
        // it.
        let slot = self.ledger.slot_of(self.time.as_millisecond() - 1)?;
        let observed = (0..=slot).rev().find(|slot| self.ledger.observed[*slot])?;
        let start = self.ledger.span.start
            + i64::try_from(observed)
                .unwrap_or(i64::MAX)
                .saturating_mul(self.ledger.slot);
        let ago = self.time.as_millisecond() - start;
        (ago <= WINDOW).then_some(observed)
    }

    /// Returns the last known number of devices at that time.
    fn capacity(&self) -> Option<u64> {
        self.ledger
            .capacities
            .get(..=self.slot()?)?
            .iter()
            .rev()
            .find_map(|capacity| *capacity)
    }

    /// Returns the indexes of the allocations that held devices at that time.
    pub(crate) fn held(&self) -> Option<Vec<usize>> {
        let slot = self.slot()?;
        Some(
            (0..self.ledger.allocations.len())
                .filter(|index| self.ledger.allocations[*index].held[slot])
                .collect(),
        )
    }

    pub(crate) fn tenure(&self, index: usize) -> &Allocation {
        &self.ledger.allocations[index]
    }

    /// Sums the parts that these allocations held, by name.
    pub(crate) fn parts(&self, held: &[usize]) -> Vec<PartAt> {
        let mut names: BTreeMap<&str, u64> = BTreeMap::new();
        for (part, units) in held
            .iter()
            .filter_map(|index| self.tenure(*index).part.as_ref())
        {
            *names.entry(&part.name).or_default() += units;
        }
        names
            .into_iter()
            .map(|(name, allocated)| PartAt {
                part: name.to_owned(),
                capacity: None,
                allocated,
            })
            .collect()
    }

    /// Lists all parts at that time, including those that were not held.
    fn all_parts(&self, held: &[usize]) -> Vec<PartAt> {
        let held_parts = self.parts(held);
        let slot = self.slot();
        let part_at = |(name, slots): (&String, &Vec<Option<u64>>)| PartAt {
            part: name.clone(),
            capacity: slot.and_then(|slot| {
                slots
                    .get(..=slot)?
                    .iter()
                    .rev()
                    .find_map(|capacity| *capacity)
            }),
            allocated: held_parts
                .iter()
                .find(|part| part.part == *name)
                .map_or(0, |part| part.allocated),
        };
        let mut parts: Vec<PartAt> = self.ledger.part_capacities.iter().map(part_at).collect();
        parts.extend(
            held_parts
                .into_iter()
                .filter(|part| !self.ledger.part_capacities.contains_key(&part.part)),
        );
        parts
    }

    pub(crate) fn gpus(&self, held: &[usize]) -> GpuCount {
        held.iter().map(|index| self.tenure(*index).gpus).sum()
    }

    /// Returns the mean utilization of the whole devices of these allocations, over the five
    /// minutes before that time.
    pub(crate) fn utilization(&self, held: &[usize]) -> Option<Percent> {
        let measured = held
            .iter()
            .copied()
            .filter(|index| self.tenure(*index).part.is_none())
            .collect();
        self.mean(self.usage.runs_of(&measured))
    }

    /// Computes the mean utilization of a device with these holders in the same window.
    pub(crate) fn device_utilization(&self, device: usize, holders: &[usize]) -> Option<Percent> {
        let runs = self.usage.runs().iter();
        self.mean(runs.filter(|run| run.device == device && run.holders == holders))
    }

    fn mean<'r>(&self, runs: impl Iterator<Item = &'r HolderSamples>) -> Option<Percent> {
        let window = (self.time.as_millisecond() - 1 - self.ledger.span.start).div_euclid(WINDOW);
        windows(self.ledger.span, runs).get(&window).copied()
    }

    fn group(&self, held: &[usize], uids: &Uids) -> GroupAllocation {
        let tops: BTreeSet<&TopOwner> = held.iter().map(|index| &self.tenure(*index).top).collect();
        let workload = |top: &&TopOwner| {
            let by_top: Vec<usize> = held
                .iter()
                .copied()
                .filter(|index| self.tenure(*index).top == **top)
                .collect();
            WorkloadAllocation {
                uid: uids
                    .get(&(top.namespace.clone(), top.kind.clone(), top.name.clone()))
                    .cloned(),
                name: top.name.clone(),
                namespace: top.namespace.clone(),
                kind: top.kind.clone(),
                allocated_gpu: self.gpus(&by_top),
                gpu_parts: self.parts(&by_top),
                utilization: self.utilization(&by_top).map(rounded),
            }
        };
        GroupAllocation {
            allocated_gpu: self.gpus(held),
            gpu_parts: self.parts(held),
            utilization: self.utilization(held).map(rounded),
            workload_count: tops.len(),
            workloads: tops.iter().map(workload).collect(),
        }
    }

    fn details(&self, held: &[usize], details: Details<'_>) -> Allocations {
        let mut namespaces: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut annotations: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for index in held {
            let tenure = self.tenure(*index);
            namespaces.entry(&tenure.pod.0).or_default().push(*index);
            let value = details
                .annotation
                .and_then(|key| tenure.annotations.as_ref()?.get(key));
            if let Some(value) = value {
                annotations.entry(value).or_default().push(*index);
            }
        }
        let groups = |by_name: BTreeMap<&str, Vec<usize>>| -> BTreeMap<String, GroupAllocation> {
            by_name
                .into_iter()
                .map(|(name, held)| (name.to_owned(), self.group(&held, details.uids)))
                .collect()
        };
        Allocations {
            namespaces: Some(groups(namespaces)),
            annotations: Some(groups(annotations)),
        }
    }
}

/// The held GPUs at a point in time.
#[derive(JsonSchema, Serialize)]
pub struct Snapshot {
    id: u64,
    cluster_name: String,
    snapshot_time: Timestamp,
    dimension_type: &'static str,
    /// Present only in the current snapshot, because the document does not define it for lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    dimension_key: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimension_value: Option<&'static str>,
    total_gpu_capacity: Option<u64>,
    allocated_gpu_count: Option<GpuCount>,
    /// MIG instances, partitions and shares, which are not included in the counts of GPUs; `null`
    /// when nothing was recorded at that time.
    gpu_parts: Option<Vec<PartAt>>,
    allocation_details: Allocations,
    created_at: Timestamp,
}

impl Snapshot {
    /// Returns CLUSTER/TIME, which identifies the snapshot.
    pub fn name(&self) -> String {
        format!("{}/{}", self.cluster_name, self.snapshot_time)
    }

    pub fn allocated(&self) -> Option<GpuCount> {
        self.allocated_gpu_count
    }
}

/// Allocations by namespace, and by the values of an annotation; an empty object if no details were
/// requested.
#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct Allocations {
    #[serde(skip_serializing_if = "Option::is_none")]
    namespaces: Option<BTreeMap<String, GroupAllocation>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<String, GroupAllocation>>,
}

#[derive(JsonSchema, Serialize)]
struct GroupAllocation {
    allocated_gpu: GpuCount,
    gpu_parts: Vec<PartAt>,
    /// Mean over the previous five minutes, in percent.
    utilization: Option<Percent>,
    workload_count: usize,
    workloads: Vec<WorkloadAllocation>,
}

#[derive(JsonSchema, Serialize)]
struct WorkloadAllocation {
    /// `null` when the object no longer exists.
    uid: Option<String>,
    name: String,
    namespace: String,
    kind: String,
    allocated_gpu: GpuCount,
    gpu_parts: Vec<PartAt>,
    utilization: Option<Percent>,
}

/// Creates a snapshot. `with_dimension` adds the dimension fields, which snapshots in lists omit.
pub fn snapshot(
    at: &PointInTime<'_>,
    details: Option<Details<'_>>,
    with_dimension: bool,
) -> Snapshot {
    let held = at.held();
    Snapshot {
        id: id(&["snapshot", at.cluster, &at.time.to_string()]),
        cluster_name: at.cluster.to_owned(),
        snapshot_time: at.time,
        dimension_type: "cluster",
        // The dimension has no key and value, because the snapshot covers the entire cluster.
        dimension_key: with_dimension.then_some(""),
        dimension_value: with_dimension.then_some(""),
        total_gpu_capacity: at.capacity(),
        allocated_gpu_count: held.as_ref().map(|held| at.gpus(held)),
        gpu_parts: held.as_ref().map(|held| at.all_parts(held)),
        allocation_details: details
            .zip(held)
            .map(|(details, held)| at.details(&held, details))
            .unwrap_or_default(),
        created_at: at.time,
    }
}

/// Renders a snapshot and its workloads as text.
pub fn text(snapshot: &Snapshot, style: TextStyle) -> String {
    let (held, capacity) = (
        or_dash(snapshot.allocated_gpu_count),
        or_dash(snapshot.total_gpu_capacity),
    );
    let mut text = format!(
        "{}: {held} of {capacity} GPUs held\n",
        snapshot.snapshot_time
    );
    let mut table = Table::new([
        left("NAMESPACE"),
        left("WORKLOAD"),
        left("KIND"),
        right("GPUS"),
        left("PARTS"),
        percentages("UTIL"),
    ]);
    for (namespace, group) in snapshot.allocation_details.namespaces.iter().flatten() {
        for workload in &group.workloads {
            table.row(vec![
                namespace.as_str().into(),
                workload.name.as_str().into(),
                workload.kind.as_str().into(),
                workload.allocated_gpu.to_string().into(),
                or_dash(Some(cell(&workload.gpu_parts)).filter(|text| !text.is_empty())).into(),
                percent(workload.utilization).into(),
            ]);
        }
    }
    text.push_str(&table.show(Format::Table, true, style));
    text
}

/// Renders snapshots as a table, or as CSV with all fields. On a terminal, only the number of times
/// without data is shown.
pub fn table(rows: &[Snapshot], format: Format, headers: bool, style: TextStyle) -> String {
    if format == Format::Csv {
        return csv::rows(rows, headers);
    }
    let mut table = Table::new([
        left("SNAPSHOT TIME"),
        left("CLUSTER"),
        right("TOTAL GPU CAPACITY"),
        right("ALLOCATED GPU COUNT"),
    ]);
    let is_known = |row: &&Snapshot| {
        style.width.is_none()
            || row.total_gpu_capacity.is_some()
            || row.allocated_gpu_count.is_some()
    };
    for row in rows.iter().filter(is_known) {
        table.row(vec![
            row.snapshot_time.to_string().into(),
            row.cluster_name.as_str().into(),
            or_dash(row.total_gpu_capacity).into(),
            or_dash(row.allocated_gpu_count).into(),
        ]);
    }
    let unknown = rows.len() - rows.iter().filter(is_known).count();
    let note = if unknown == 0 {
        String::new()
    } else {
        format!(
            "{} without data {} not shown\n",
            count(unknown as u64, "time"),
            if unknown == 1 { "is" } else { "are" }
        )
    };
    table.show(format, headers, style) + &note
}
