//! Sums the GPU-hours of nodes that no pod held. Together with the held hours, they are the
//! capacity: capacity = allocated + idle + unseen.

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

    /// Returns the hours during gaps of kube-state-metrics in which the GPUs were idle or held.
    /// `None` if a node's capacity is unknown.
    pub fn unseen(&self) -> Option<f64> {
        self.unknown.is_empty().then_some(self.unseen)
    }

    /// Returns the hours of all GPUs. `account` contains the hours that pods held.
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

    /// Adds an observed slot of a node.
    fn add_slot(&mut self, node: &str, slots: &NodeSlots, slot: usize, held: HeldGpus, hours: f64) {
        let rest = (slots.capacity[slot].unwrap_or(0.0) - held.surely).max(0.0);
        let unseen = held.possibly.min(rest);
        self.unseen += unseen * hours;
        let idle = rest - unseen;
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

/// A node that existed in the last observed slot, and what followed.
#[derive(Clone, Copy, Debug)]
struct OpenGap {
    /// GPUs in the last observed slot.
    before: f64,
    /// Hours without samples since then.
    hours: f64,
    /// GPU-hours that pods held nevertheless, because they existed before and after the gap.
    held: f64,
}

impl OpenGap {
    fn new(before: f64) -> Self {
        Self {
            before,
            hours: 0.0,
            held: 0.0,
        }
    }

    /// Returns the unseen GPU-hours, if the node had `after` GPUs after the gap.
    fn unseen(self, after: f64) -> f64 {
        (self.before.min(after) * self.hours - self.held).max(0.0)
    }
}

/// Sums the unheld GPU-hours of a window by group, one chunk of time after another.
#[derive(Clone, Debug, Default)]
pub struct CapacityTracker {
    groups: BTreeMap<GroupValues, CapacityHours>,
    gaps: BTreeMap<String, OpenGap>,
    /// GPUs by node in the first sample after the last chunk, with the group.
    after: BTreeMap<String, (f64, GroupValues)>,
    is_started: bool,
    /// Nodes whose capacity was reported at any time.
    reported: BTreeSet<String>,
    /// Nodes on which pods held GPUs, with their group.
    holders: BTreeMap<String, GroupValues>,
}

impl CapacityTracker {
    /// Adds the next chunk of time. `group` returns the group of a node.
    ///
    /// A gap of kube-state-metrics counts for a node that existed before and after it. If samples
    /// exist only on one side, the node may have been added or deleted in the gap.
    pub fn add(
        &mut self,
        ledger: &AllocationHistory,
        history: &NodeHistory,
        group: impl Fn(&str) -> GroupValues,
    ) {
        let held = held_by_node(ledger);
        for (node, gpus) in &held {
            let holds = gpus.slots.iter().any(|held| held.surely > 0.0);
            if holds && !self.holders.contains_key(*node) {
                self.holders.insert((*node).to_owned(), group(node));
            }
        }
        if !self.is_started {
            let open = |(node, slots): (&String, &NodeSlots)| {
                Some((node.clone(), OpenGap::new(slots.before?)))
            };
            self.gaps = history.nodes.iter().filter_map(open).collect();
            self.is_started = true;
        }
        self.after.clear();
        let mut open_gaps = std::mem::take(&mut self.gaps);
        let no_slots = NodeSlots {
            capacity: vec![None; ledger.observed.len()],
            ..NodeSlots::default()
        };
        let names: BTreeSet<&String> = history.nodes.keys().chain(open_gaps.keys()).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        for node in names {
            let slots = history.nodes.get(&node).unwrap_or(&no_slots);
            let values = group(&node);
            let held = held.get(node.as_str());
            let hours = self.groups.entry(values.clone()).or_default();
            let gap = open_gaps.remove(&node);
            if let Some(gap) = hours.add_node(&node, slots, held, gap, ledger) {
                self.gaps.insert(node.clone(), gap);
            }
            if slots.capacity.iter().any(Option::is_some) {
                self.reported.insert(node.clone());
            }
            if let Some(after) = slots.after {
                self.after.insert(node, (after, values));
            }
        }
    }

    /// Returns the hours of each group.
    pub fn finish(mut self) -> BTreeMap<GroupValues, CapacityHours> {
        for (node, (after, group)) in self.after {
            if let Some(gap) = self.gaps.remove(&node) {
                self.groups.entry(group).or_default().unseen += gap.unseen(after);
            }
        }
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

impl CapacityHours {
    /// Adds a chunk of time of one node. `gap` is open at its start. Returns the gap at its end, if
    /// the node existed in the last observed slot.
    fn add_node(
        &mut self,
        node: &str,
        slots: &NodeSlots,
        held: Option<&HeldSlots<'_>>,
        mut gap: Option<OpenGap>,
        ledger: &AllocationHistory,
    ) -> Option<OpenGap> {
        let part = slots.unknown_part.as_deref();
        if let Some(part) = part.or(held.and_then(|held| held.unknown_part)) {
            let reason = format!("the fraction of a GPU in {part} is unknown");
            self.unknown.insert(node.to_owned(), reason);
        }
        let length = ledger.span.end - ledger.span.start;
        let mut begin = 0;
        for slot in 0..ledger.observed.len() {
            // The last slot ends with the window.
            let hours = ledger.slot.min(length - begin).max(0) as f64 / 3_600_000.0;
            begin += ledger.slot;
            let held = held.map_or(HeldGpus::default(), |held| held.slots[slot]);
            if !ledger.observed[slot] {
                if let Some(gap) = &mut gap {
                    gap.hours += hours;
                    gap.held += held.surely * hours;
                }
                continue;
            }
            let capacity = slots.capacity[slot];
            if let Some((gap, now)) = gap.zip(capacity) {
                self.unseen += gap.unseen(now);
            }
            gap = capacity.map(OpenGap::new);
            self.add_slot(node, slots, slot, held, hours);
        }
        gap
    }
}

/// GPUs of a node that pods held in a slot.
#[derive(Clone, Copy, Debug, Default)]
struct HeldGpus {
    surely: f64,
    /// GPUs that pods may have held, because they have no samples.
    possibly: f64,
}

/// GPUs that pods held on one node.
struct HeldSlots<'l> {
    slots: Vec<HeldGpus>,
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
                slots: vec![HeldGpus::default(); ledger.observed.len()],
                unknown_part: None,
            });
        let devices = allocation.devices();
        let marked = |slots: &[bool], slot: usize| slots.get(slot).is_some_and(|marked| *marked);
        for (slot, sum) in held.slots.iter_mut().enumerate() {
            if marked(&allocation.held, slot) {
                sum.surely += devices;
            } else if marked(&allocation.gaps.unseen, slot) {
                sum.possibly += devices;
            }
        }
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
