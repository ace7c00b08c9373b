//! Computes hourly statistics of a cluster, a namespace, a label value or a workload: time-weighted
//! numbers of held devices, and their utilization.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationGroup, AllocationHistory};
use super::part_hours;
use super::part_hours::PartSum;
use super::top_owner::TopOwner;
use super::usage::{HolderSamples, Usage, windows};
use crate::model::values::units::{Mebibytes, Percent, UnitValue, total};

/// Mean, extremes and percentiles of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueSummary<U> {
    pub count: usize,
    pub mean: U,
    pub max: U,
    pub min: U,
    pub p50: U,
    pub p95: U,
}

impl<U: UnitValue> ValueSummary<U> {
    /// Summarizes values, or returns `None` if there are none.
    pub fn from_values(mut sorted: Vec<U>) -> Option<Self> {
        sorted.sort_unstable_by(|a, b| a.value().total_cmp(&b.value()));
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self {
            count: sorted.len(),
            mean: U::from_value(
                sorted.iter().map(|value| value.value()).sum::<f64>() / sorted.len() as f64,
            ),
            max,
            min,
            p50: percentile(&sorted, 0.5),
            p95: percentile(&sorted, 0.95),
        })
    }
}

/// Interpolates linearly between neighboring values: the median of 10, 20, …, 100 is 55, and their
/// 95th percentile is 95.5.
fn percentile<U: UnitValue>(sorted: &[U], part: f64) -> U {
    let position = part * (sorted.len() - 1) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in the list"
    )]
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let (below_it, above_it) = (sorted[below].value(), sorted[above].value());
    U::from_value(below_it + (above_it - below_it) * (position - below as f64))
}

/// Statistics of a group of pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum {
    /// Number of held devices, weighted by time.
    pub allocated: f64,
    /// Number of requested devices, including those of waiting pods, weighted by time.
    pub requested: f64,
    /// Summary of the group's five-minute means.
    pub windows: Option<ValueSummary<Percent>>,
    /// Summary of the samples of its devices.
    pub samples: Option<ValueSummary<Percent>>,
    /// Number of workloads that held a device or a slice at any time.
    pub workloads: usize,
    /// Slices of devices. The other fields do not include them.
    pub parts: Vec<PartSum>,
}

/// Statistics of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSum {
    pub top: TopOwner,
    pub sum: Sum,
    /// Summary of the memory samples of its devices.
    pub memory_used: Option<ValueSummary<Mebibytes>>,
    pub memory_total: Option<ValueSummary<Mebibytes>>,
    /// Number of pods, over the slots with any pods.
    pub replicas: Option<ValueSummary<f64>>,
    /// Last observed status: `Running`, `Pending`, `Completed` or `Failed`.
    pub status: Option<&'static str>,
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Returns the number of devices that some pods held, weighted by time over the slots with samples.
pub fn allocated<'t>(
    ledger: &AllocationHistory,
    allocations: impl Iterator<Item = &'t Allocation>,
    slots: impl Fn(&'t Allocation) -> &'t [bool],
) -> Option<f64> {
    let observed_slots = ledger.observed_slots();
    let held_slots = |allocation: &'t Allocation| {
        let held = slots(allocation)
            .iter()
            .zip(&ledger.observed)
            .filter(|(held, observed)| **held && **observed)
            .count();
        held as f64 * allocation.gpus.as_f64()
    };
    (observed_slots > 0).then(|| total(allocations.map(held_slots)) / observed_slots as f64)
}

/// Computes the statistics of a group of allocations, or `None` if no slot has samples. Those of
/// the whole cluster also include devices with unknown holders.
pub fn sum(
    ledger: &AllocationHistory,
    usage: &Usage,
    group: &AllocationGroup,
    is_cluster: bool,
) -> Option<Sum> {
    let allocations = || group.whole.iter().map(|index| &ledger.allocations[*index]);
    let is_whole = |run: &HolderSamples| {
        run.holders.is_empty()
            || run
                .holders
                .iter()
                .any(|holder| ledger.allocations[*holder].part.is_none())
    };
    let runs: Vec<&HolderSamples> = match is_cluster {
        true => usage
            .runs()
            .iter()
            .filter(|run| run.held && is_whole(run))
            .collect(),
        false => usage.runs_of(&group.whole).collect(),
    };
    let means: Vec<Percent> = windows(ledger.span, runs.iter().copied())
        .into_values()
        .collect();
    let mut values = Vec::with_capacity(runs.iter().map(|run| run.values.len()).sum());
    runs.iter()
        .for_each(|run| values.extend(run.values.iter().map(|point| Percent(point.value))));
    let allocated_all = || {
        group
            .whole
            .iter()
            .chain(&group.parts)
            .map(|index| &ledger.allocations[*index])
    };
    let workloads: BTreeSet<&TopOwner> = allocated_all()
        .filter(|allocation| allocation.held.iter().any(|held| *held))
        .map(|allocation| &allocation.top)
        .collect();
    Some(Sum {
        allocated: allocated(ledger, allocations(), |allocation| &allocation.held)?,
        requested: allocated(ledger, allocations(), |allocation| &allocation.requested)?,
        windows: ValueSummary::from_values(means),
        samples: ValueSummary::from_values(values),
        workloads: workloads.len(),
        parts: part_hours::sums(ledger, usage, &group.parts),
    })
}

/// Computes the statistics of every workload that requested devices, sorted by owner.
pub fn workloads(ledger: &AllocationHistory, usage: &Usage) -> Vec<WorkloadSum> {
    let mut tops: BTreeMap<&TopOwner, AllocationGroup> = BTreeMap::new();
    for (index, allocation) in ledger.allocations.iter().enumerate() {
        tops.entry(&allocation.top)
            .or_default()
            .add(index, allocation);
    }
    let workload = |(top, group): (&TopOwner, AllocationGroup)| {
        let allocations = || {
            group
                .whole
                .iter()
                .chain(&group.parts)
                .map(|index| &ledger.allocations[*index])
        };
        let (memory_used, memory_total) = usage.memory_of(&group.whole);
        let slots = (0..ledger.observed.len()).filter(|slot| ledger.observed[*slot]);
        let pods: Vec<f64> = slots
            .map(|slot| {
                allocations()
                    .filter(|allocation| allocation.requested[slot])
                    .map(|allocation| &allocation.pod)
                    .collect::<BTreeSet<_>>()
                    .len() as f64
            })
            .filter(|pods| *pods > 0.0)
            .collect();
        let first = |workload: fn(&Allocation) -> &Option<BTreeMap<String, String>>| {
            allocations()
                .find_map(|allocation| workload(allocation).clone().filter(|map| !map.is_empty()))
                .or_else(|| allocations().find_map(|allocation| workload(allocation).clone()))
        };
        Some(WorkloadSum {
            top: top.clone(),
            sum: sum(ledger, usage, &group, false)?,
            memory_used: ValueSummary::from_values(memory_used),
            memory_total: ValueSummary::from_values(memory_total),
            replicas: ValueSummary::from_values(pods),
            status: status(allocations()),
            labels: first(|allocation| &allocation.labels),
            annotations: first(|allocation| &allocation.annotations),
        })
    };
    let has_requested = |index: &usize| ledger.allocations[*index].requested.contains(&true);
    tops.into_iter()
        .filter(|(_, group)| group.whole.iter().chain(&group.parts).any(has_requested))
        .filter_map(workload)
        .collect()
}

/// Returns the status in the newest observation. Of several phases in it, the most active one wins.
fn status<'t>(allocations: impl Iterator<Item = &'t Allocation>) -> Option<&'static str> {
    let rank = |phase: &str| match phase {
        "Running" => 4,
        "Pending" => 3,
        "Failed" => 2,
        "Succeeded" => 1,
        _ => 0,
    };
    let last = allocations
        .filter_map(|allocation| allocation.phase.as_ref())
        .max_by_key(|(slot, phase)| (*slot, rank(phase)))?;
    Some(match last.1.as_str() {
        "Running" => "Running",
        "Pending" => "Pending",
        "Failed" => "Failed",
        "Succeeded" => "Completed",
        _ => "Unknown",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_interpolate() {
        let tens: Vec<f64> = (1..=10).map(|value| f64::from(value) * 10.0).collect();
        let summary = ValueSummary::from_values(tens).unwrap();
        assert_eq!(
            (summary.mean, summary.min, summary.max),
            (55.0, 10.0, 100.0)
        );
        assert!((summary.p50 - 55.0).abs() < 1e-9 && (summary.p95 - 95.5).abs() < 1e-9);
        assert_eq!(ValueSummary::from_values(vec![7.0]).unwrap().p95, 7.0);
        assert_eq!(ValueSummary::<f64>::from_values(Vec::new()), None);
    }
}
