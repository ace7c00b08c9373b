//! Determines which pods held a device at a given time, from the labels of its samples and the
//! allocations on its node.

use std::collections::BTreeMap;

use crate::model::GpuCount;
use crate::model::facts::reading::PodKey;

use super::allocations::{Allocation, AllocationHistory};
use crate::stats::exporters::identity::SeriesDevice;

/// Allocations on one node.
struct NodeAllocations {
    /// Indexes of the allocations in the ledger.
    allocations: Vec<usize>,
    /// Number of changes of the holders up to each slot. Slots with equal numbers have equal
    /// holders.
    changes: Vec<u32>,
}

/// Pods that the labels of a device name, as numbers.
pub(crate) enum NamedPods {
    /// The labels always name the same pod, or never name one.
    Same(Option<u32>),
    /// The labels name different pods at different times.
    ByTime {
        named: Vec<(i64, u32)>,
        /// Index of the first entry at or after the last requested time.
        next: usize,
    },
}

impl NamedPods {
    /// Builds the list from (time, pod) pairs.
    pub(crate) fn by_time(mut pods: Vec<(i64, u32)>) -> Self {
        pods.sort_unstable();
        pods.dedup();
        Self::ByTime {
            named: pods,
            next: 0,
        }
    }

    /// Returns the pods at a time. Ascending times need no search.
    fn pods_at(&mut self, at: i64) -> impl Iterator<Item = u32> + Clone + '_ {
        let (same, pods) = match self {
            Self::Same(pod) => (*pod, &[][..]),
            Self::ByTime { named: pods, next } => {
                if *next > 0 && pods[*next - 1].0 >= at {
                    *next = 0;
                }
                *next += pods[*next..]
                    .iter()
                    .take_while(|(time, _)| *time < at)
                    .count();
                (None, &pods[*next..])
            }
        };
        same.into_iter().chain(
            pods.iter()
                .take_while(move |(time, _)| *time == at)
                .map(|(_, pod)| *pod),
        )
    }
}

/// Holders of devices over time, by node.
pub(crate) struct Tenants<'l> {
    ledger: &'l AllocationHistory,
    by_node: BTreeMap<&'l str, NodeAllocations>,
    numbers: BTreeMap<&'l PodKey, u32>,
    /// Number of the pod of each allocation.
    pods: Vec<u32>,
    /// Nearest slot with samples for each slot.
    seen: Vec<Option<usize>>,
}

impl<'l> Tenants<'l> {
    pub(crate) fn new(ledger: &'l AllocationHistory) -> Self {
        let (mut by_node, mut numbers): (BTreeMap<&str, Vec<usize>>, BTreeMap<&PodKey, u32>) =
            Default::default();
        let mut pods = Vec::with_capacity(ledger.allocations.len());
        for (index, allocation) in ledger.allocations.iter().enumerate() {
            by_node.entry(&allocation.node).or_default().push(index);
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            pods.push(*numbers.entry(&allocation.pod).or_insert(next));
        }
        let seen = ledger.nearest_observed();
        let on_node = |allocations: Vec<usize>| {
            let is_other = |slot: usize| {
                let holds = |index: usize, slot: usize| holds(ledger, &seen, index, slot);
                slot > 0
                    && allocations
                        .iter()
                        .any(|index| holds(*index, slot) != holds(*index, slot - 1))
            };
            let mut changed = 0;
            let count = |slot: usize| {
                changed += u32::from(is_other(slot));
                changed
            };
            let changes = (0..ledger.observed.len()).map(count).collect();
            NodeAllocations {
                allocations,
                changes,
            }
        };
        let by_node = by_node
            .into_iter()
            .map(|(node, allocations)| (node, on_node(allocations)))
            .collect();
        Self {
            ledger,
            by_node,
            numbers,
            pods,
            seen,
        }
    }

    /// Returns the number of a pod. All pods without requests share a number that matches no
    /// allocation.
    pub(crate) fn number(&self, pod: &PodKey) -> u32 {
        self.numbers.get(pod).copied().unwrap_or(u32::MAX)
    }

    /// Tracks the holders of one device. `names` are the pods that its labels name.
    pub(crate) fn watch<'t>(&'t self, device: &SeriesDevice, names: NamedPods) -> DeviceWatch<'t> {
        // The holder of an instance cannot be inferred, so set a capacity only for whole devices.
        let capacity = self
            .ledger
            .node_capacities
            .get(&device.node)
            .copied()
            .filter(|_| device.slice.is_none());
        DeviceWatch {
            tenants: self,
            on_node: self.by_node.get(device.node.as_str()),
            is_instance: device.slice.is_some(),
            capacity: capacity.unwrap_or(0),
            names,
            slot: (i64::MAX, None),
            last: None,
            holders: Vec::new(),
            held: false,
        }
    }
}

/// Whether an allocation holds devices in a slot. In a slot without samples, it does so if the same
/// pod exists on both sides of the gap, or if it did so in the nearest slot with samples.
fn holds(ledger: &AllocationHistory, seen: &[Option<usize>], index: usize, slot: usize) -> bool {
    let held = &ledger.allocations[index].held;
    held[slot] || (!ledger.observed[slot] && seen[slot].is_some_and(|nearest| held[nearest]))
}

/// The holders of one device over time.
pub(crate) struct DeviceWatch<'t> {
    tenants: &'t Tenants<'t>,
    on_node: Option<&'t NodeAllocations>,
    /// True for a slice that exporters measure separately.
    is_instance: bool,
    /// Number of devices on the node, if the holder can be inferred from a full node, otherwise 0.
    capacity: u64,
    names: NamedPods,
    /// Start and number of the last requested slot.
    slot: (i64, Option<usize>),
    /// Inputs of the last decision: the node's number of holder changes, and the named pods.
    last: Option<(Option<u32>, Vec<u32>)>,
    /// Indexes of allocations; several if the device is shared.
    pub holders: Vec<usize>,
    /// True if a pod held the device, even if it is unknown which one.
    pub held: bool,
}

impl DeviceWatch<'_> {
    /// Moves to a time. Returns true if the holders differ from those before.
    pub(crate) fn advance_to(&mut self, at: i64) -> bool {
        let slot = self.slot_of(at);
        let now = slot.map(|slot| self.on_node.map_or(0, |on_node| on_node.changes[slot]));
        let named = self.names.pods_at(at);
        if self
            .last
            .as_ref()
            .is_some_and(|(before, pods)| *before == now && named.clone().eq(pods.iter().copied()))
        {
            return false;
        }
        let named: Vec<u32> = named.collect();
        let (holders, held) =
            slot.map_or_else(Default::default, |slot| self.holders_at(slot, &named));
        let is_other = self.last.is_none() || (&holders, held) != (&self.holders, self.held);
        (self.holders, self.held, self.last) = (holders, held, Some((now, named)));
        is_other
    }

    /// Returns the slot of a time. Usually it is the last slot or the next one, which need no
    /// division.
    fn slot_of(&mut self, at: i64) -> Option<usize> {
        let (begin, last) = self.slot;
        let length = self.tenants.ledger.slot;
        self.slot = match last {
            Some(_) if (begin..begin + length).contains(&at) => (begin, last),
            Some(last)
                if (begin + length..begin + 2 * length).contains(&at)
                    && last + 1 < self.tenants.seen.len() =>
            {
                (begin + length, Some(last + 1))
            }
            _ => {
                let start = self.tenants.ledger.span.start;
                (
                    start + (at - start).div_euclid(length) * length,
                    self.tenants.ledger.slot_of(at),
                )
            }
        };
        self.slot.1
    }

    /// Returns true if an allocation may include this device. Instances are held as instances, and
    /// whole devices as devices or as shares.
    fn can_hold(&self, allocation: &Allocation) -> bool {
        allocation
            .part
            .as_ref()
            .is_some_and(|(part, _)| part.instance)
            == self.is_instance
    }

    /// Returns the holders in a slot, and whether the device was held. Holders are pods that the
    /// labels name and that held devices on the node. If no labels name a pod, only a pod that
    /// holds the whole node can be inferred.
    fn holders_at(&self, slot: usize, named: &[u32]) -> (Vec<usize>, bool) {
        let allocations = &self.tenants.ledger.allocations;
        let holders = self.on_node.map_or(&[][..], |holders| &holders.allocations);
        let mut holders: Vec<usize> = holders
            .iter()
            .copied()
            .filter(|index| holds(self.tenants.ledger, &self.tenants.seen, *index, slot))
            .collect();
        if !named.is_empty() {
            holders.retain(|index| named.contains(&self.tenants.pods[*index]));
            // Some nodes offer partitions under the resource name of whole devices, so pods hold
            // partitions as whole devices there.
            if holders
                .iter()
                .any(|index| self.can_hold(&allocations[*index]))
            {
                holders.retain(|index| self.can_hold(&allocations[*index]));
            }
            let held = !holders.is_empty();
            return (holders, held);
        }
        holders.retain(|index| self.can_hold(&allocations[*index]));
        let GpuCount(taken) = holders.iter().map(|index| allocations[*index].gpus).sum();
        let full = self.capacity > 0 && taken >= self.capacity;
        (
            if full && holders.len() == 1 {
                holders
            } else {
                Vec::new()
            },
            full,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::history::allocations::{Allocation, AllocationGaps};
    use crate::stats::history::slots::TimeSpan;
    use crate::stats::history::top_owner::TopOwner;

    const SLOT: i64 = 30_000;

    /// Builds eight devices of one node. `a` holds all of them for three slots, then `b` holds four
    /// for three slots. The third slot has no samples.
    fn ledger() -> AllocationHistory {
        let allocation = |name: &str, gpus: u64, held: [bool; 6]| Allocation {
            pod: ("team".into(), name.into()),
            node: "n".into(),
            top: TopOwner {
                namespace: "team".into(),
                kind: "Pod".into(),
                name: name.into(),
            },
            gpus: GpuCount(gpus),
            part: None,
            requested: held.to_vec(),
            running: held.to_vec(),
            held: held.to_vec(),
            phase: None,
            labels: None,
            annotations: None,
            gaps: AllocationGaps::default(),
        };
        AllocationHistory {
            span: TimeSpan {
                start: 1_000_000,
                end: 1_000_000 + 6 * SLOT,
            },
            slot: SLOT,
            observed: vec![true, true, false, true, true, true],
            capacity: Some(8),
            capacities: vec![Some(8); 6],
            node_capacities: [("n".to_owned(), 8)].into(),
            part_capacities: BTreeMap::new(),
            node_part_capacities: BTreeMap::new(),
            allocations: vec![
                allocation("a", 8, [true, true, false, false, false, false]),
                allocation("b", 4, [false, false, false, true, true, true]),
            ],
        }
    }

    fn device() -> SeriesDevice {
        SeriesDevice {
            node: "n".into(),
            uuid: Some("GPU-x".into()),
            index: Some(0),
            slice: None,
        }
    }

    #[test]
    fn pod_with_the_whole_node_holds_each_unnamed_device() {
        let ledger = ledger();
        let tenants = Tenants::new(&ledger);
        let mut watch = tenants.watch(&device(), NamedPods::Same(None));
        let mut seen = Vec::new();
        for slot in 0..6 {
            let changed = watch.advance_to(ledger.span.start + slot * SLOT + 7);
            seen.push((changed, watch.holders.clone(), watch.held));
        }
        let a = |changed: bool| (changed, vec![0], true);
        let nobody = |changed: bool| (changed, Vec::new(), false);
        // A slot without samples has the result of the previous slot.
        assert_eq!(
            seen,
            [
                a(true),
                a(false),
                a(false),
                nobody(true),
                nobody(false),
                nobody(false)
            ]
        );
        // Return to the start, as for another quantity, and then move outside the window.
        assert!(watch.advance_to(ledger.span.start) && watch.holders == [0]);
        assert!(watch.advance_to(ledger.span.end) && !watch.held);
    }

    #[test]
    fn named_pod_counts_when_and_where_it_held_devices() {
        let ledger = ledger();
        let tenants = Tenants::new(&ledger);
        let at = |slot: i64| ledger.span.start + slot * SLOT;
        let (a, b) = (
            tenants.number(&ledger.allocations[0].pod),
            tenants.number(&ledger.allocations[1].pod),
        );
        let stranger = tenants.number(&("team".into(), "nobody".into()));
        let names = vec![
            (at(4), b),
            (at(1), b),
            (at(4), b),
            (at(3), stranger),
            (at(5), a),
            (at(5), b),
        ];
        let mut watch = tenants.watch(&device(), NamedPods::by_time(names));
        let mut holders = |slot: i64| {
            watch.advance_to(at(slot));
            (watch.holders.clone(), watch.held)
        };
        assert_eq!(
            holders(0),
            (vec![0], true),
            "not named, so by the whole node"
        );
        assert_eq!(holders(1), (vec![], false), "named before it held any");
        assert_eq!(holders(3), (vec![], false), "requested none");
        assert_eq!(holders(4), (vec![1], true));
        assert_eq!(
            holders(5),
            (vec![1], true),
            "the other one holds none any more"
        );
        assert_eq!(holders(4), (vec![1], true), "back again");
        let mut same = tenants.watch(&device(), NamedPods::Same(Some(b)));
        assert!(same.advance_to(at(0)) && !same.held);
        assert!(same.advance_to(at(3)) && same.holders == [1]);
    }
}
