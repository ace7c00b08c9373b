//! Reconstructs from kube-state-metrics samples which pods, including deleted ones, held which
//! devices during a window. Time is divided into slots of one scrape interval. Slots without
//! samples are unknown and have no weight.

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
use super::slots::{Slots, TimeSpan};
use super::top_owner::{LiveOwners, OwnerSeries, TopOwner, Tops};
use crate::stats::exporters::kube_state::{names, pod};
use crate::stats::exporters::parts::NodeParts;

/// Devices that a pod requested and held on one node.
#[derive(Clone, Debug)]
pub struct Allocation {
    pub pod: PodKey,
    /// Node of the pod, or empty while the pod is not scheduled.
    pub node: String,
    pub top: TopOwner,
    /// Number of whole devices, or 0 if the pod requested slices.
    pub gpus: GpuCount,
    /// Kind and number of slices. All slices of one kind on one node form one allocation.
    pub part: Option<(Part, u64)>,
    /// Slots during which the pod requested devices, because it was pending or running.
    pub requested: Vec<bool>,
    /// Slots during which the pod was bound and pending or running. A pod that pulls its image
    /// already holds its devices.
    pub held: Vec<bool>,
    /// Held slots during which the phase was Running or unknown.
    pub running: Vec<bool>,
    /// Last observed phase with its slot.
    pub phase: Option<(usize, String)>,
    /// Labels of the pod, or `None` if kube-state-metrics exports no labels.
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
}

impl Allocation {
    /// Returns the number of devices or slices.
    pub fn units(&self) -> u64 {
        self.gpus.0 + self.part.as_ref().map_or(0, |(_, units)| *units)
    }

    /// Returns the number of devices, counting a slice by its fraction. A slice of unknown fraction
    /// counts as one device, and a GiB of memory as zero.
    pub fn devices(&self) -> f64 {
        let parts = self.part.as_ref().map_or(0.0, |(part, units)| {
            *units as f64 * part.fraction.unwrap_or_else(|| part.unknown())
        });
        self.gpus.as_f64() + parts
    }
}

/// The allocations of all pods in a window.
#[derive(Clone, Debug)]
pub struct AllocationHistory {
    pub span: TimeSpan,
    /// Length of a slot in milliseconds.
    pub slot: i64,
    /// Slots with samples from kube-state-metrics.
    pub observed: Vec<bool>,
    /// Highest number of devices on all nodes in the window, or `None` if kube-state-metrics
    /// reported no devices.
    pub capacity: Option<u64>,
    /// Number of devices on all nodes by slot.
    pub capacities: Vec<Option<u64>>,
    /// Highest number of devices by node.
    pub node_capacities: BTreeMap<String, u64>,
    /// Number of slices on all nodes by name and slot.
    pub part_capacities: BTreeMap<String, Vec<Option<u64>>>,
    /// Highest number of slices by node and name.
    pub node_part_capacities: BTreeMap<String, BTreeMap<String, u64>>,
    pub allocations: Vec<Allocation>,
}

/// Responses to the kube-state-metrics queries for a window.
#[derive(Clone, Debug, Default)]
pub struct AllocationSeries {
    pub requests: Vec<Series>,
    /// All phases that each pod was ever in.
    pub phases_ever: Vec<Series>,
    /// Phases over time of pods that were in more than one phase.
    pub phases: Vec<Series>,
    pub owners: OwnerSeries,
    pub labels: Vec<Series>,
    pub annotations: Vec<Series>,
    /// Samples of devices that were allocated through claims.
    pub claimed: Vec<Series>,
}

/// Indexes of a group's allocations, separately for whole devices and slices.
#[derive(Clone, Debug, Default)]
pub struct AllocationGroup {
    pub whole: BTreeSet<usize>,
    pub parts: BTreeSet<usize>,
}

impl AllocationGroup {
    pub fn add(&mut self, index: usize, allocation: &Allocation) {
        let indexes = if allocation.part.is_none() {
            &mut self.whole
        } else {
            &mut self.parts
        };
        indexes.insert(index);
    }
}

type PodId = (PodKey, String);
type PodLabels = BTreeMap<PodId, BTreeMap<String, String>>;

/// Records of kube-state-metrics about pods that requested devices.
struct PodRecords {
    count: usize,
    phases: BTreeMap<PodId, Phases>,
    /// Phases of pods that were only ever in one phase.
    only_phases: BTreeMap<PodId, usize>,
    /// Last slot with a request for devices, by pod.
    last_seen: BTreeMap<PodId, usize>,
    tops: Tops,
    labels: Option<PodLabels>,
    annotations: Option<PodLabels>,
}

impl PodRecords {
    /// Reads the responses, and adds the UIDs of pods whose requests come from claims.
    fn new(
        answers: &AllocationSeries,
        slots: Slots,
        live: &LiveOwners,
        requests: &mut [(PodPlace, Requested)],
    ) -> Self {
        let uids: BTreeMap<PodKey, String> = answers.phases_ever.iter().filter_map(pod).collect();
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
            phases: phases::by_pod(&answers.phases, slots.count, |at| slots.slot_at(at)),
            only_phases: answers
                .phases_ever
                .iter()
                .filter_map(|series| pod(series).zip(phase(series)))
                .collect(),
            last_seen,
            tops: Tops::new(&answers.owners, live),
            labels: names_by_pod(&answers.labels, "label_"),
            annotations: names_by_pod(&answers.annotations, "annotation_"),
        }
    }

    /// Returns the phases of a pod. A pod that was only in one phase stayed in it until its last
    /// sample.
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
        let is_in = |slot: usize, expected: &[&str]| {
            let phase = phases.as_ref().and_then(|phases| phases.at_slot(slot));
            phase.is_none_or(|phase| expected.contains(&phase))
        };
        for (slot, requested) in requested.iter_mut().enumerate() {
            *requested = *requested && is_in(slot, &["Pending", "Running"]);
        }
        let held = if node.is_empty() {
            vec![false; self.count]
        } else {
            requested.clone()
        };
        let names = |by_pod: &Option<PodLabels>| {
            let by_pod = by_pod.as_ref()?;
            Some(by_pod.get(&id).cloned().unwrap_or_default())
        };
        Allocation {
            top: self.tops.top_of(&id.0),
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

/// Groups labels or annotations by pod. Returns `None` if no series has any: without an allow-list,
/// kube-state-metrics exports these series without the labels of the object.
fn names_by_pod(answer: &[Series], prefix: &str) -> Option<PodLabels> {
    let labels: PodLabels = answer
        .iter()
        .filter_map(|series| Some((pod(series)?, names(series, prefix))))
        .collect();
    labels
        .values()
        .any(|names| !names.is_empty())
        .then_some(labels)
}

impl AllocationHistory {
    /// Builds the history from responses. `parts` contains the kinds of units that nodes offer, and
    /// `aliases` maps exporters' names of nodes to the nodes' names.
    pub fn new(
        answers: &AllocationSeries,
        capacity: &[Series],
        span: TimeSpan,
        parts: &NodeParts,
        aliases: &BTreeMap<String, String>,
        live: &LiveOwners,
    ) -> Self {
        let counted = || capacity.iter().chain(&answers.requests);
        let slots = Slots::new(span, counted().map(|series| &series.points[..]));
        let mut observed = vec![false; slots.count];
        counted().for_each(|series| slots.mark(series, &mut observed));
        let capacity = Capacity::counted(capacity, slots, &observed, parts);
        let mut requests = requested::by_pod(
            &answers.requests,
            slots.count,
            |series, marked| slots.mark(series, marked),
            parts,
        );
        requested::add_claimed(
            &mut requests,
            &answers.claimed,
            aliases,
            slots.count,
            |series, marked| slots.mark_claimed(series, marked),
        );
        let pods = PodRecords::new(answers, slots, live, &mut requests);
        Self {
            span,
            slot: slots.length,
            observed,
            capacity: capacity.whole.iter().flatten().max().copied(),
            capacities: capacity.whole,
            node_capacities: capacity.node_capacities,
            part_capacities: capacity.parts,
            node_part_capacities: capacity.node_part_capacities,
            allocations: requests
                .into_iter()
                .map(|(place, requested)| pods.allocation(place, requested))
                .collect(),
        }
    }

    /// Builds a history with samples in every slot but without capacities.
    #[cfg(any(test, feature = "testing"))]
    pub fn from_allocations(start: i64, slot: i64, allocations: Vec<Allocation>) -> Self {
        let count = allocations
            .iter()
            .map(|allocation| allocation.requested.len())
            .max()
            .unwrap_or(0);
        Self {
            span: TimeSpan {
                start,
                end: start + i64::try_from(count).unwrap_or(0) * slot,
            },
            slot,
            observed: vec![true; count],
            capacity: None,
            capacities: vec![None; count],
            node_capacities: BTreeMap::new(),
            part_capacities: BTreeMap::new(),
            node_part_capacities: BTreeMap::new(),
            allocations,
        }
    }

    /// Returns the highest number of slices in the window by name.
    pub fn part_capacity(&self) -> Vec<(String, u64)> {
        let highest = |(name, slots): (&String, &Vec<Option<u64>>)| {
            Some((name.clone(), slots.iter().flatten().max().copied()?))
        };
        self.part_capacities.iter().filter_map(highest).collect()
    }

    /// Returns the slot that contains a time, or `None` outside the window.
    pub fn slot_of(&self, at: i64) -> Option<usize> {
        usize::try_from((at - self.span.start).div_euclid(self.slot))
            .ok()
            .filter(|slot| *slot < self.observed.len())
    }

    /// For each slot, returns the nearest slot with samples: the last one up to the slot, or
    /// otherwise the first one after it.
    pub(crate) fn nearest_observed(&self) -> Vec<Option<usize>> {
        let mut last = self.observed.iter().position(|observed| *observed);
        let nearest = |(slot, observed): (usize, &bool)| {
            last = if *observed { Some(slot) } else { last };
            last
        };
        self.observed.iter().enumerate().map(nearest).collect()
    }

    /// Collects the indexes of a group's allocations.
    pub fn group(&self, belongs: impl Fn(&Allocation) -> bool) -> AllocationGroup {
        let mut group = AllocationGroup::default();
        let members = self
            .allocations
            .iter()
            .enumerate()
            .filter(|(_, allocation)| belongs(allocation));
        members.for_each(|(index, allocation)| group.add(index, allocation));
        group
    }

    /// Whether a pod with GPUs, or one that requested them, was in the namespace.
    pub fn has_pods_in(&self, namespace: &str) -> bool {
        let mut namespaces = self.allocations.iter().map(|allocation| &allocation.pod.0);
        namespaces.any(|name| name == namespace)
    }

    /// Counts the slots with samples.
    pub fn observed_slots(&self) -> usize {
        self.observed.iter().filter(|observed| **observed).count()
    }
}
