//! Reconstructs who held which devices during a window from kube-state-metrics samples, deleted
//! pods included. Time is cut into slots of one scrape; slots without samples are unknown and weigh
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::GpuCount;
use crate::model::facts::part::Part;
use crate::model::facts::reading::PodKey;
use crate::model::values::series::Series;

use super::capacity::Capacity;
use super::phases;
use super::phases::{Phases, phase};
use super::requested;
use super::requested::{PodPlace, Requested};
use super::slots::{Slots, Stretch};
use super::top_owner::{LiveOwners, OwnerSeries, TopOwner, Tops};
use crate::stats::exporters::kube_state::{names, pod};
use crate::stats::exporters::parts::NodeParts;

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

/// A pod: its key and UID.
type PodId = (PodKey, String);
/// Labels or annotations by pod.
type PodLabels = BTreeMap<PodId, BTreeMap<String, String>>;

/// What kube-state-metrics reported of the pods that requested devices.
struct PodRecords {
    count: usize,
    phases: BTreeMap<PodId, Phases>,
    /// The only phase of pods that were never in another.
    only_phases: BTreeMap<PodId, usize>,
    /// The last slot in which a pod requested devices.
    last_seen: BTreeMap<PodId, usize>,
    tops: Tops,
    labels: Option<PodLabels>,
    annotations: Option<PodLabels>,
}

impl PodRecords {
    /// Reads the answers, and completes the requests by the UIDs of pods that have claims.
    fn new(
        witness: &Witness,
        slots: Slots,
        live: &LiveOwners,
        requests: &mut [(PodPlace, Requested)],
    ) -> Self {
        let uids: BTreeMap<PodKey, String> = witness.phases_ever.iter().filter_map(pod).collect();
        let mut last_seen: BTreeMap<PodId, usize> = BTreeMap::new();
        for ((key, uid, _), requested) in requests {
            if uid.is_empty() {
                *uid = uids.get(key).cloned().unwrap_or_default();
            }
            let last = requested.slots.iter().rposition(|requested| *requested);
            let seen = last_seen.entry((key.clone(), uid.clone())).or_default();
            *seen = last.unwrap_or(0).max(*seen);
        }
        Self {
            count: slots.count,
            phases: phases::by_pod(&witness.phases, slots.count, |at| slots.place(at)),
            only_phases: witness
                .phases_ever
                .iter()
                .filter_map(|series| pod(series).zip(phase(series)))
                .collect(),
            last_seen,
            tops: Tops::of(&witness.owners, live),
            labels: names_by_pod(&witness.labels, "label_"),
            annotations: names_by_pod(&witness.annotations, "annotation_"),
        }
    }

    /// Returns the phases of a pod. A pod that was never in another phase was in its only one until
    /// it was seen last.
    fn phases(&self, id: &PodId) -> Option<Phases> {
        let only = || {
            let last = *self.last_seen.get(id)?;
            Some(Phases::until(last, self.count, *self.only_phases.get(id)?))
        };
        self.phases.get(id).cloned().or_else(only)
    }

    fn allocation(&self, (key, uid, node): PodPlace, requested: Requested) -> Allocation {
        let Requested {
            gpus,
            part,
            slots: mut requested,
        } = requested;
        let id = (key, uid);
        let phases = self.phases(&id);
        let is_in = |slot: usize, known: &[&str]| {
            let phase = phases.as_ref().and_then(|phases| phases.at(slot));
            phase.is_none_or(|phase| known.contains(&phase))
        };
        for (slot, requested) in requested.iter_mut().enumerate() {
            *requested = *requested && is_in(slot, &["Pending", "Running"]);
        }
        let held = if node.is_empty() {
            vec![false; self.count]
        } else {
            requested.clone()
        };
        let names = |all: &Option<PodLabels>| {
            let all = all.as_ref()?;
            Some(all.get(&id).cloned().unwrap_or_default())
        };
        Allocation {
            top: self.tops.of_pod(&id.0),
            node,
            gpus: GpuCount(gpus),
            part,
            requested,
            running: held
                .iter()
                .enumerate()
                .map(|(slot, held)| *held && is_in(slot, &["Running"]))
                .collect(),
            held,
            phase: phases.as_ref().and_then(Phases::last),
            labels: names(&self.labels),
            annotations: names(&self.annotations),
            pod: id.0,
        }
    }
}

/// Returns names and values by pod; `None` where no series has any. Without an allow-list there are
/// series, and nothing in them.
fn names_by_pod(answer: &[Series], prefix: &str) -> Option<PodLabels> {
    let found: PodLabels = answer
        .iter()
        .filter_map(|series| Some((pod(series)?, names(series, prefix))))
        .collect();
    found
        .values()
        .any(|names| !names.is_empty())
        .then_some(found)
}

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
        let slots = Slots::new(stretch, all().map(|series| &series.points[..]));
        let mut observed = vec![false; slots.count];
        all().for_each(|series| slots.mark(series, &mut observed));
        let capacity = Capacity::counted(capacity, slots, &observed, parts);
        let mut requests = requested::by_pod(
            &witness.requests,
            slots.count,
            |series, marked| slots.mark(series, marked),
            parts,
        );
        requested::add_claimed(
            &mut requests,
            &witness.claimed,
            aliases,
            slots.count,
            |series, marked| slots.mark_claimed(series, marked),
        );
        let pods = PodRecords::new(witness, slots, live, &mut requests);
        Self {
            stretch,
            slot: slots.length,
            observed,
            capacity: capacity.whole.iter().flatten().max().copied(),
            capacities: capacity.whole,
            of_nodes: capacity.of_nodes,
            part_capacities: capacity.parts,
            parts_of_nodes: capacity.parts_of_nodes,
            tenures: requests
                .into_iter()
                .map(|(place, requested)| pods.allocation(place, requested))
                .collect(),
        }
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
