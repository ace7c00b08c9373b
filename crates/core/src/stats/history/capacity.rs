//! Counts the devices and slices of nodes in each slot of a window.

use std::collections::BTreeMap;

use super::cadence::{intervals, is_gap, usual};
use super::slots::Slots;
use crate::model::values::omissions;
use crate::model::values::omissions::Omission;
use crate::model::values::series::{Point, Series};
use crate::model::values::units::MOST_PER_NODE;
use crate::stats::exporters::kube_state::label;
use crate::stats::exporters::parts::{ClaimableNow, NodeParts, ResourceUnit};

/// One amount per slot, or `None` for slots without samples.
type SlotAmounts = Vec<Option<u64>>;

/// Devices of all nodes.
#[derive(Default)]
pub(super) struct Capacity {
    /// Number of whole devices by slot.
    pub(super) whole: SlotAmounts,
    /// Highest number of whole devices by node.
    pub(super) node_capacities: BTreeMap<String, u64>,
    /// Number of slices by name and slot.
    pub(super) parts: BTreeMap<String, SlotAmounts>,
    /// Highest number of slices by node and name.
    pub(super) node_part_capacities: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Capacity {
    /// Counts the devices that kube-state-metrics reported and, in slots with samples, the devices
    /// that are allocated only through claims.
    pub(super) fn counted(
        answer: &[Series],
        slots: Slots,
        observed: &[bool],
        parts: &NodeParts,
    ) -> Self {
        let mut capacity = Self {
            whole: vec![None; slots.count],
            ..Self::default()
        };
        capacity.add_reported(reported(answer, slots), parts);
        for (node, devices) in parts.claimable() {
            let seen = |slot: usize| {
                let exists = devices.since.is_none_or(|since| since <= slots.begin(slot));
                SlotSight {
                    exists,
                    is_observed: exists && observed[slot],
                }
            };
            let sights: Vec<SlotSight> = (0..slots.count).map(seen).collect();
            capacity.add_claimable(node, devices, &sights);
        }
        capacity
    }

    fn add_reported(&mut self, reported: BTreeMap<(&str, &str), SlotAmounts>, parts: &NodeParts) {
        let count = self.whole.len();
        let mut node_capacities: BTreeMap<&str, SlotAmounts> = BTreeMap::new();
        for ((node, resource), amounts) in reported {
            if let Some(ResourceUnit::Part(part)) = parts.unit(node, resource) {
                self.add_parts(&part.name, &amounts);
                let highest = amounts.into_iter().flatten().max().unwrap_or(0);
                *self
                    .node_part_capacities
                    .entry(node.to_owned())
                    .or_default()
                    .entry(part.name)
                    .or_default() += highest;
                continue;
            }
            let sum = node_capacities
                .entry(node)
                .or_insert_with(|| vec![None; count]);
            add(sum, &amounts);
        }
        for (node, amounts) in node_capacities {
            add(&mut self.whole, &amounts);
            let highest = amounts.into_iter().flatten().max();
            self.node_capacities
                .extend(highest.map(|highest| (node.to_owned(), highest)));
        }
    }

    /// Adds the devices of a node that are allocated only through DRA claims.
    fn add_claimable(&mut self, node: &str, devices: &ClaimableNow, sights: &[SlotSight]) {
        let amounts = |devices: u64| -> SlotAmounts {
            sights
                .iter()
                .map(|sight| sight.is_observed.then_some(devices))
                .collect()
        };
        // Skip a node that kube-state-metrics counted, for example before the node switched to
        // claims.
        let exists = sights.iter().any(|sight| sight.exists);
        if devices.gpus > 0 && !self.node_capacities.contains_key(node) && exists {
            add(&mut self.whole, &amounts(devices.gpus));
            self.node_capacities.insert(node.to_owned(), devices.gpus);
        }
        for (name, number) in &devices.parts {
            self.add_parts(name, &amounts(*number));
            self.node_part_capacities
                .entry(node.to_owned())
                .or_default()
                .insert(name.clone(), *number);
        }
    }

    fn add_parts(&mut self, name: &str, amounts: &[Option<u64>]) {
        let sum = self
            .parts
            .entry(name.to_owned())
            .or_insert_with(|| vec![None; amounts.len()]);
        add(sum, amounts);
    }
}

/// Presence of a node in one slot.
struct SlotSight {
    exists: bool,
    /// True if the node existed and kube-state-metrics had samples.
    is_observed: bool,
}

/// Groups amounts by node and resource. Drops absurd amounts and records them as omissions.
fn reported(answer: &[Series], slots: Slots) -> BTreeMap<(&str, &str), SlotAmounts> {
    let mut reported: BTreeMap<(&str, &str), SlotAmounts> = BTreeMap::new();
    for series in answer {
        let Some(node) = label(series, "node") else {
            continue;
        };
        if series
            .points
            .iter()
            .any(|point| point.value > MOST_PER_NODE as f64)
        {
            omissions::note(Omission::AbsurdAmount, format!("node {node}"));
            continue;
        }
        let amounts = reported
            .entry((node, series.label("resource").unwrap_or_default()))
            .or_insert_with(|| vec![None; slots.count]);
        fill(amounts, series, slots);
    }
    reported
}

/// Sets the amounts of a series. Each sample counts until the next one, or for one interval before
/// a gap, so that the series of all nodes have amounts in the same slots.
fn fill(amounts: &mut [Option<u64>], series: &Series, slots: Slots) {
    let points: Vec<&Point> = series
        .points
        .iter()
        .filter(|point| point.value.is_finite() && point.value >= 0.0)
        .collect();
    let times: Vec<i64> = points.iter().map(|point| point.at).collect();
    let interval = usual(&times).unwrap_or(slots.length);
    for (index, (point, interval)) in points.iter().zip(intervals(&times, interval)).enumerate() {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of devices"
        )]
        let value = point.value.round() as u64;
        let next = times
            .get(index + 1)
            .filter(|next| !is_gap(**next - point.at, interval));
        let end = next.copied().unwrap_or(point.at + interval);
        let start = if index == 0 && !is_gap(point.at - slots.span.start, interval) {
            slots.span.start.min(point.at)
        } else {
            point.at
        };
        let covered = slots.between(start, end).chain(slots.slot_at(point.at));
        covered.for_each(|slot| amounts[slot] = amounts[slot].max(Some(value)));
    }
}

/// Adds two lists of amounts slot by slot. Missing amounts add nothing.
fn add(sums: &mut [Option<u64>], amounts: &[Option<u64>]) {
    for (sums, amount) in sums.iter_mut().zip(amounts) {
        *sums = amount
            .map(|amount| amount.saturating_add(sums.unwrap_or(0)))
            .or(*sums);
    }
}
