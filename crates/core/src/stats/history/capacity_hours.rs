//! Sums the GPU-hours of nodes that no pod held. Together with the held hours they are the capacity:
//! capacity = allocated + idle + unseen.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::AllocationHistory;
use super::gpu_hours::GpuHours;
use super::job_time::GroupValues;
use super::node_history::{NodeHistory, NodeSlots};

/// GPU-hours in one state, by node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateHours {
    /// Nodes with a positive number of hours.
    pub by_node: BTreeMap<String, f64>,
    /// Whether kube-state-metrics did not report the state of a node with idle GPUs.
    pub is_unknown: bool,
}

impl StateHours {
    /// Returns the sum, or `None` if the state of a node was not reported.
    pub fn sum(&self) -> Option<f64> {
        (!self.is_unknown).then(|| self.by_node.values().sum())
    }

    fn add_hours(&mut self, node: &str, hours: f64) {
        if hours > 0.0 {
            *self.by_node.entry(node.to_owned()).or_default() += hours;
        }
    }

    fn add(&mut self, other: &Self) {
        let hours = other.by_node.iter();
        hours.for_each(|(node, hours)| self.add_hours(node, *hours));
        self.is_unknown |= other.is_unknown;
    }
}

/// GPU-hours that no pod held. Slices count by their fraction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapacityHours {
    idle: f64,
    /// Idle GPU-hours on cordoned nodes, without those of lost GPUs.
    pub cordoned: StateHours,
    /// Idle GPU-hours of GPUs that the kubelet did not offer, or whose node was not ready.
    pub lost: StateHours,
    unseen: f64,
    /// Why the capacity of a node is unknown, by node.
    pub unknown: BTreeMap<String, String>,
}

impl CapacityHours {
    /// Returns the hours that no pod held, or `None` if a node's capacity is unknown.
    pub fn idle(&self) -> Option<f64> {
        self.unknown.is_empty().then_some(self.idle)
    }

    /// Returns the hours during gaps of kube-state-metrics, in which nobody knows whether pods held
    /// the GPUs. `None` if a node's capacity is unknown.
    pub fn unseen(&self) -> Option<f64> {
        self.unknown.is_empty().then_some(self.unseen)
    }

    /// Returns the hours of all GPUs, of which pods held those in `account`.
    pub fn capacity(&self, account: &GpuHours) -> Option<f64> {
        Some(allocated(account)? + self.idle()? + self.unseen()?)
    }

    pub fn add(&mut self, other: &Self) {
        self.idle += other.idle;
        self.unseen += other.unseen;
        self.cordoned.add(&other.cordoned);
        self.lost.add(&other.lost);
        self.unknown.extend(other.unknown.clone());
    }

    /// Adds an observed slot in which pods held `held` of a node's GPUs.
    fn add_slot(&mut self, node: &str, slots: &NodeSlots, slot: usize, held: f64, hours: f64) {
        let idle = (slots.capacity[slot].unwrap_or(0.0) - held).max(0.0);
        if idle <= 0.0 {
            return;
        }
        self.idle += idle * hours;
        let lost = slots.lost.as_ref().map(|lost| lost[slot].min(idle));
        self.lost.is_unknown |= lost.is_none();
        self.lost.add_hours(node, lost.unwrap_or(0.0) * hours);
        self.cordoned.is_unknown |= slots.cordoned.is_none();
        if slots
            .cordoned
            .as_ref()
            .is_some_and(|cordoned| cordoned[slot])
        {
            let rest = idle - lost.unwrap_or(0.0);
            self.cordoned.add_hours(node, rest * hours);
        }
    }
}

/// Returns the GPU-hours that pods held, with slices by their fraction. `None` if the fraction of a
/// slice is unknown.
pub fn allocated(account: &GpuHours) -> Option<f64> {
    Some(account.held + account.part_equivalent()?)
}

/// Sums the unheld GPU-hours of a window by group, one chunk of time after another.
#[derive(Clone, Debug, Default)]
pub struct CapacityTracker {
    groups: BTreeMap<GroupValues, CapacityHours>,
    /// GPUs by node in the last observed slot.
    before: BTreeMap<String, f64>,
    /// Hours since the last observed slot.
    gap: f64,
    /// Nodes whose capacity was reported at any time.
    reported: BTreeSet<String>,
    /// Nodes on which pods held GPUs, with their group.
    holders: BTreeMap<String, GroupValues>,
}

impl CapacityTracker {
    /// Adds the next chunk of time. `group` returns the group of a node.
    ///
    /// A gap of kube-state-metrics counts for a node that existed before and after it. Of a gap at
    /// the start or the end of the window nobody knows which nodes existed.
    pub fn add(
        &mut self,
        ledger: &AllocationHistory,
        history: &NodeHistory,
        group: impl Fn(&str) -> GroupValues,
    ) {
        let slot_hours = ledger.slot as f64 / 3_600_000.0;
        let held = held_by_node(ledger);
        for (node, gpus) in &held {
            let holds = gpus.slots.iter().any(|gpus| *gpus > 0.0);
            if holds && !self.holders.contains_key(*node) {
                self.holders.insert((*node).to_owned(), group(node));
            }
        }
        let mut last = BTreeMap::new();
        for (node, slots) in &history.nodes {
            let hours = self.groups.entry(group(node)).or_default();
            let held = held.get(node.as_str());
            let part = slots.unknown_part.as_deref();
            if let Some(part) = part.or(held.and_then(|held| held.unknown_part)) {
                let reason = format!("the fraction of a GPU in {part} is unknown");
                hours.unknown.insert(node.clone(), reason);
            }
            let (mut before, mut gap) = (self.before.get(node).copied(), self.gap);
            for slot in 0..ledger.observed.len() {
                if !ledger.observed[slot] {
                    gap += slot_hours;
                    continue;
                }
                let capacity = slots.capacity[slot];
                if let Some((before, now)) = before.zip(capacity) {
                    hours.unseen += before.min(now) * gap;
                }
                (before, gap) = (capacity, 0.0);
                let held = held.map_or(0.0, |held| held.slots[slot]);
                hours.add_slot(node, slots, slot, held, slot_hours);
            }
            last.extend(before.map(|gpus| (node.clone(), gpus)));
            if slots.capacity.iter().any(Option::is_some) {
                self.reported.insert(node.clone());
            }
        }
        match ledger.observed.iter().rposition(|observed| *observed) {
            Some(slot) => {
                self.gap = (ledger.observed.len() - 1 - slot) as f64 * slot_hours;
                self.before = last;
            }
            None => self.gap += ledger.observed.len() as f64 * slot_hours,
        }
    }

    /// Returns the hours of each group.
    pub fn finish(mut self) -> BTreeMap<GroupValues, CapacityHours> {
        for (node, group) in self.holders {
            if !self.reported.contains(&node) {
                let reason = "kube-state-metrics reports no capacity of it".to_owned();
                let hours = self.groups.entry(group).or_default();
                hours.unknown.insert(node, reason);
            }
        }
        self.groups
    }
}

/// GPUs that pods held on one node.
struct HeldSlots<'l> {
    /// Number of GPUs by slot.
    slots: Vec<f64>,
    unknown_part: Option<&'l str>,
}

fn held_by_node(ledger: &AllocationHistory) -> BTreeMap<&str, HeldSlots<'_>> {
    let mut by_node: BTreeMap<&str, HeldSlots<'_>> = BTreeMap::new();
    for allocation in &ledger.allocations {
        if allocation.node.is_empty() {
            continue;
        }
        let held = by_node
            .entry(allocation.node.as_str())
            .or_insert_with(|| HeldSlots {
                slots: vec![0.0; ledger.observed.len()],
                unknown_part: None,
            });
        let devices = allocation.devices();
        let slots = allocation.held.iter().zip(&mut held.slots);
        slots.for_each(|(is_held, gpus)| *gpus += f64::from(u8::from(*is_held)) * devices);
        let part = allocation.part.as_ref().map(|(part, _)| part);
        let unknown = part.filter(|part| part.fraction.is_none());
        held.unknown_part = unknown.map(|part| part.name.as_str()).or(held.unknown_part);
    }
    by_node
}

#[cfg(any(test, feature = "testing"))]
mod testing;
#[cfg(test)]
mod tests;
