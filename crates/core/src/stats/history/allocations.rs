//! Reconstructs who held which devices during a window from kube-state-metrics samples, deleted
//! pods included. Time is cut into slots of one scrape; slots without samples are unknown and weigh
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::GpuCount;
use crate::model::facts::part::Part;
use crate::model::facts::reading::PodKey;
use crate::model::values::left_out;
use crate::model::values::left_out::LeftOut;
use crate::model::values::series::{Point, Series};
use crate::model::values::units::MOST_PER_NODE;

use super::phases;
use super::phases::{Phases, phase};
use super::requested;
use super::requested::Requested;
use super::top_owner::{LiveOwners, OwnerSeries, TopOwner, Tops};
use crate::stats::exporters::kube_state::{label, names, pod};
use crate::stats::exporters::parts::{NodeParts, UnitOf};

/// The window, in Unix milliseconds: its begin belongs to it, its end does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub start: i64,
    pub end: i64,
}

/// A pod, for as long as it requested devices on one node.
#[derive(Clone, Debug)]
pub struct Allocation {
    pub pod: PodKey,
    /// Empty while it waits for one.
    pub node: String,
    pub top: TopOwner,
    /// Whole devices; 0 where it requested parts.
    pub gpus: GpuCount,
    /// Parts of devices, and how many of them; those of one kind on one node are one allocation.
    pub part: Option<(Part, u64)>,
    /// Slots in which it requested them: pending or running.
    pub requested: Vec<bool>,
    /// Slots in which it held them: bound, and pending or running. One that pulls its image holds
    /// them.
    pub held: Vec<bool>,
    /// Slots in which it held them and was not seen to be in another phase than running.
    pub running: Vec<bool>,
    /// The last phase that was seen, and in which slot.
    pub phase: Option<(usize, String)>,
    /// `None` where kube-state-metrics serves none.
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
}

impl Allocation {
    /// Returns how many devices, or parts of them, it has.
    pub fn units(&self) -> u64 {
        self.gpus.0 + self.part.as_ref().map_or(0, |(_, units)| *units)
    }

    /// Returns how many devices it has, parts by their fraction; a part of unknown fraction counts
    /// like a device, a GiB of memory like nothing.
    pub fn devices(&self) -> f64 {
        let parts = self.part.as_ref().map_or(0.0, |(part, units)| {
            *units as f64 * part.fraction.unwrap_or_else(|| part.unknown())
        });
        self.gpus.as_f64() + parts
    }
}

/// Everybody's tenures.
#[derive(Clone, Debug)]
pub struct AllocationHistory {
    pub stretch: Stretch,
    /// Length of a slot in milliseconds.
    pub slot: i64,
    /// Slots in which kube-state-metrics was heard.
    pub observed: Vec<bool>,
    /// Devices of all nodes; the highest of the window. `None` when kube-state-metrics reported
    /// none.
    pub capacity: Option<u64>,
    /// The same by slot.
    pub capacities: Vec<Option<u64>>,
    /// The highest by node.
    pub of_nodes: BTreeMap<String, u64>,
    /// Parts of devices by name and slot, of all nodes.
    pub part_capacities: BTreeMap<String, Vec<Option<u64>>>,
    /// The highest by node and name.
    pub parts_of_nodes: BTreeMap<String, BTreeMap<String, u64>>,
    pub tenures: Vec<Allocation>,
}

/// What kube-state-metrics answered about a window.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    pub requests: Vec<Series>,
    /// Phases that pods were ever in.
    pub phases_ever: Vec<Series>,
    /// When, for pods that were in several.
    pub phases: Vec<Series>,
    pub owners: OwnerSeries,
    pub labels: Vec<Series>,
    pub annotations: Vec<Series>,
    /// Samples of devices that a claim gave to a pod.
    pub claimed: Vec<Series>,
}

/// Places of allocations of a group: of whole devices, and of parts.
#[derive(Clone, Debug, Default)]
pub struct AllocationGroup {
    pub whole: BTreeSet<usize>,
    pub parts: BTreeSet<usize>,
}

/// Milliseconds between two scrapes where nobody can tell.
const USUAL_SLOT: i64 = 60_000;
/// What is scraped more rarely than this is not followed in time.
const LONGEST_SLOT: i64 = 300_000;

impl AllocationGroup {
    pub fn add(&mut self, index: usize, allocation: &Allocation) {
        let own = if allocation.part.is_none() {
            &mut self.whole
        } else {
            &mut self.parts
        };
        own.insert(index);
    }
}

impl Stretch {
    fn slots(self, slot: i64) -> usize {
        usize::try_from((self.end - self.start + slot - 1).div_euclid(slot)).unwrap_or(0)
    }
}

/// Returns the most common time between two samples.
pub fn interval<'a>(curves: impl Iterator<Item = &'a [Point]>) -> Option<i64> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    // Mostly it is the one before once more.
    let (mut last, mut times) = (0, 0);
    for pair in curves.flat_map(|points| points.windows(2)) {
        // Scrapes jitter by milliseconds.
        let length = (pair[1].at - pair[0].at + 500) / 1000 * 1000;
        if length != last {
            *counts.entry(last).or_default() += times;
            (last, times) = (length, 0);
        }
        times += 1;
    }
    *counts.entry(last).or_default() += times;
    counts
        .into_iter()
        .filter(|(length, count)| *length > 0 && *count > 0)
        .max_by_key(|(length, count)| (*count, -length))
        .map(|(length, _)| length)
}

/// Labels or annotations by pod and UID.
type PodLabels = BTreeMap<(PodKey, String), BTreeMap<String, String>>;
impl AllocationHistory {
    /// Builds it from answers; `parts` says what the units of nodes are, `aliases` what exporters
    /// call the nodes.
    pub fn of(
        witness: &Witness,
        capacity: &[Series],
        stretch: Stretch,
        parts: &NodeParts,
        aliases: &BTreeMap<String, String>,
        live: &LiveOwners,
    ) -> Self {
        let all = || capacity.iter().chain(&witness.requests);
        let slot = interval(all().map(|series| &series.points[..]))
            .unwrap_or(USUAL_SLOT)
            .clamp(1000, LONGEST_SLOT);
        let count = stretch.slots(slot);
        let place = |at: i64| {
            usize::try_from((at - stretch.start).div_euclid(slot))
                .ok()
                .filter(|place| *place < count)
        };
        // One scrape that is late or lost, or a longer time between two, is no gap.
        let mark_every = |step: i64, series: &Series, slots: &mut [bool]| {
            let mut before = None;
            for point in &series.points {
                let from = before
                    .filter(|before| point.at - before <= step * 5 / 2)
                    .unwrap_or(point.at);
                let between = (from..point.at)
                    .step_by(usize::try_from(slot).unwrap_or(usize::MAX))
                    .skip(1);
                between
                    .chain([point.at])
                    .filter_map(place)
                    .for_each(|place| slots[place] = true);
                before = Some(point.at);
            }
        };
        let mark = |series: &Series, slots: &mut [bool]| mark_every(slot, series, slots);
        // Exporters are scraped as often as they are; what a window cuts is seen as well.
        let mark_claimed = |series: &Series, slots: &mut [bool]| {
            let step = interval([&series.points[..]].into_iter())
                .unwrap_or(slot)
                .max(slot);
            mark_every(step, series, slots);
            let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else {
                return;
            };
            let times = |from: i64, to: i64| {
                (from..to)
                    .step_by(usize::try_from(slot).unwrap_or(usize::MAX))
                    .filter_map(place)
            };
            if first.at - stretch.start < step {
                times(stretch.start, first.at).for_each(|place| slots[place] = true);
            }
            if stretch.end - last.at <= step {
                times(last.at, stretch.end).for_each(|place| slots[place] = true);
            }
        };
        let mut observed = vec![false; count];
        all().for_each(|series| mark(series, &mut observed));
        let capacities = vec![None; count];
        let mut ledger = Self {
            stretch,
            slot,
            observed,
            capacity: None,
            capacities,
            of_nodes: BTreeMap::new(),
            part_capacities: BTreeMap::new(),
            parts_of_nodes: BTreeMap::new(),
            tenures: Vec::new(),
        };
        ledger.count_capacity(capacity, place, parts);
        let phases = phases::by_pod(&witness.phases, count, place);
        // Of claims no UID is told.
        let uids: BTreeMap<PodKey, String> = witness.phases_ever.iter().filter_map(pod).collect();
        let ever: BTreeMap<_, _> = witness
            .phases_ever
            .iter()
            .filter_map(|series| pod(series).zip(phase(series)))
            .collect();
        let tops = Tops::of(&witness.owners, live);
        let told = |answer: &[Series], before: &str| -> Option<PodLabels> {
            let found: BTreeMap<_, _> = answer
                .iter()
                .filter_map(|series| Some((pod(series)?, names(series, before))))
                .collect();
            // Without an allow-list there are series, and nothing in them.
            found
                .values()
                .any(|names| !names.is_empty())
                .then_some(found)
        };
        let (labels, annotations) = (
            told(&witness.labels, "label_"),
            told(&witness.annotations, "annotation_"),
        );
        let mut requests = requested::by_pod(&witness.requests, count, mark, parts);
        requested::add_claimed(
            &mut requests,
            &witness.claimed,
            aliases,
            count,
            mark_claimed,
        );
        let mut last_seen: BTreeMap<(PodKey, String), usize> = BTreeMap::new();
        for ((key, uid, _), _) in requests
            .iter_mut()
            .filter(|((_, uid, _), _)| uid.is_empty())
        {
            *uid = uids.get(key).cloned().unwrap_or_default();
        }
        for (
            (key, uid, _),
            Requested {
                slots: requested, ..
            },
        ) in &requests
        {
            let last = requested
                .iter()
                .rposition(|requested| *requested)
                .unwrap_or(0);
            let seen = last_seen.entry((key.clone(), uid.clone())).or_default();
            *seen = last.max(*seen);
        }
        for (
            (key, uid, node),
            Requested {
                gpus,
                part,
                slots: mut requested,
            },
        ) in requests
        {
            let id = (key.clone(), uid);
            // Who was never in another phase was in it until it was seen last.
            let lone = || Some(Phases::until(*last_seen.get(&id)?, count, *ever.get(&id)?));
            let of = phases.get(&id).cloned().or_else(lone);
            let alive = |slot: usize| {
                of.as_ref()
                    .is_none_or(|of| matches!(of.at(slot), None | Some("Pending" | "Running")))
            };
            requested
                .iter_mut()
                .enumerate()
                .for_each(|(slot, requested)| *requested = *requested && alive(slot));
            let runs = |slot: usize| {
                of.as_ref()
                    .is_none_or(|of| matches!(of.at(slot), None | Some("Running")))
            };
            let held = if node.is_empty() {
                vec![false; count]
            } else {
                requested.clone()
            };
            let own = |all: &Option<PodLabels>| {
                all.as_ref()
                    .map(|all| all.get(&id).cloned().unwrap_or_default())
            };
            ledger.tenures.push(Allocation {
                top: tops.of_pod(&key),
                pod: key,
                node,
                gpus: GpuCount(gpus),
                part,
                requested,
                running: held
                    .iter()
                    .enumerate()
                    .map(|(slot, held)| *held && runs(slot))
                    .collect(),
                held,
                phase: of.as_ref().and_then(Phases::last),
                labels: own(&labels),
                annotations: own(&annotations),
            });
        }
        ledger
    }

    /// Makes one in which everybody looked all the time, and nobody counted devices.
    #[cfg(any(test, feature = "testing"))]
    pub fn made(start: i64, slot: i64, tenures: Vec<Allocation>) -> Self {
        let count = tenures
            .iter()
            .map(|tenure| tenure.requested.len())
            .max()
            .unwrap_or(0);
        Self {
            stretch: Stretch {
                start,
                end: start + i64::try_from(count).unwrap_or(0) * slot,
            },
            slot,
            observed: vec![true; count],
            capacity: None,
            capacities: vec![None; count],
            of_nodes: BTreeMap::new(),
            part_capacities: BTreeMap::new(),
            parts_of_nodes: BTreeMap::new(),
            tenures,
        }
    }

    fn count_capacity(
        &mut self,
        answer: &[Series],
        place: impl Fn(i64) -> Option<usize>,
        parts: &NodeParts,
    ) {
        let count = self.observed.len();
        let mut told: BTreeMap<(&str, &str), Vec<Option<u64>>> = BTreeMap::new();
        for series in answer {
            let Some(node) = label(series, "node") else {
                continue;
            };
            if series
                .points
                .iter()
                .any(|point| point.value > MOST_PER_NODE as f64)
            {
                left_out::note(LeftOut::AbsurdAmount, format!("node {node}"));
                continue;
            }
            let slots = told
                .entry((node, series.label("resource").unwrap_or_default()))
                .or_insert_with(|| vec![None; count]);
            for point in series
                .points
                .iter()
                .filter(|point| point.value.is_finite() && point.value >= 0.0)
            {
                let Some(slot) = place(point.at) else {
                    continue;
                };
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a count of devices"
                )]
                let value = point.value.round() as u64;
                slots[slot] = slots[slot].max(Some(value));
            }
        }
        let mut of_nodes: BTreeMap<&str, Vec<Option<u64>>> = BTreeMap::new();
        for ((node, resource), slots) in told {
            if let Some(UnitOf::Part(part)) = parts.unit(node, resource) {
                add(
                    self.part_capacities
                        .entry(part.name.clone())
                        .or_insert_with(|| vec![None; count]),
                    &slots,
                );
                let most = slots.into_iter().flatten().max().unwrap_or(0);
                *self
                    .parts_of_nodes
                    .entry(node.to_owned())
                    .or_default()
                    .entry(part.name)
                    .or_default() += most;
                continue;
            }
            add(
                of_nodes.entry(node).or_insert_with(|| vec![None; count]),
                &slots,
            );
        }
        for (node, slots) in of_nodes {
            add(&mut self.capacities, &slots);
            let most = slots.into_iter().flatten().max();
            self.of_nodes
                .extend(most.map(|most| (node.to_owned(), most)));
        }
        for (node, devices) in parts.claimable() {
            let existed = |slot: usize| {
                let begin = self.stretch.start
                    + i64::try_from(slot)
                        .unwrap_or(i64::MAX)
                        .saturating_mul(self.slot);
                devices.since.is_none_or(|since| since <= begin)
            };
            let there = |devices: u64| -> Vec<Option<u64>> {
                let seen = |slot: usize| (self.observed[slot] && existed(slot)).then_some(devices);
                (0..count).map(seen).collect()
            };
            if devices.gpus > 0 && !self.of_nodes.contains_key(node) && (0..count).any(existed) {
                let slots = there(devices.gpus);
                add(&mut self.capacities, &slots);
                self.of_nodes.insert(node.clone(), devices.gpus);
            }
            for (name, number) in &devices.parts {
                let slots = there(*number);
                add(
                    self.part_capacities
                        .entry(name.clone())
                        .or_insert_with(|| vec![None; count]),
                    &slots,
                );
                self.parts_of_nodes
                    .entry(node.clone())
                    .or_default()
                    .insert(name.clone(), *number);
            }
        }
        self.capacity = self.capacities.iter().flatten().max().copied();
    }

    /// Returns the parts of devices that there were by name, the most of the window.
    pub fn part_capacity(&self) -> Vec<(String, u64)> {
        let most = |(name, slots): (&String, &Vec<Option<u64>>)| {
            Some((name.clone(), slots.iter().flatten().max().copied()?))
        };
        self.part_capacities.iter().filter_map(most).collect()
    }

    /// Returns the slot of a time; `None` outside the window.
    pub fn slot_of(&self, at: i64) -> Option<usize> {
        usize::try_from((at - self.stretch.start).div_euclid(self.slot))
            .ok()
            .filter(|slot| *slot < self.observed.len())
    }

    /// Finds for each slot the nearest in which somebody looked: one before, else one after.
    pub(crate) fn nearest_looks(&self) -> Vec<Option<usize>> {
        let mut last = self.observed.iter().position(|observed| *observed);
        let nearest = |(slot, observed): (usize, &bool)| {
            last = if *observed { Some(slot) } else { last };
            last
        };
        self.observed.iter().enumerate().map(nearest).collect()
    }

    /// Places of the allocations that belong to a group.
    pub fn group(&self, belongs: impl Fn(&Allocation) -> bool) -> AllocationGroup {
        let mut group = AllocationGroup::default();
        let own = self
            .tenures
            .iter()
            .enumerate()
            .filter(|(_, tenure)| belongs(tenure));
        own.for_each(|(index, tenure)| group.add(index, tenure));
        group
    }

    /// Slots in which somebody looked.
    pub fn looks(&self) -> usize {
        self.observed.iter().filter(|observed| **observed).count()
    }
}

/// Adds by slot; who was not seen has nothing to add.
fn add(to: &mut [Option<u64>], slots: &[Option<u64>]) {
    for (to, own) in to.iter_mut().zip(slots) {
        *to = own.map(|own| own.saturating_add(to.unwrap_or(0))).or(*to);
    }
}
