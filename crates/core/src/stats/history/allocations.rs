//! Reconstructs from kube-state-metrics samples which pods, including deleted ones, held which
//! devices during a window. Time is divided into slots of one scrape interval. A pod holds its
//! devices across a gap between samples if the same pod was seen before and after.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::values::series::Series;

pub use super::allocation::{Allocation, AllocationGaps, AllocationSeries};
use super::capacity::Capacity;
use super::claims;
use super::pod_records::{PodRecords, PodUids};
use super::presence::{Scrapes, Sightings};
use super::requested;
use super::reserved;
use super::slots::{Slots, TimeSpan};
use super::top_owner::LiveOwners;
use crate::stats::exporters::parts::NodeParts;

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
        let scrapes = Scrapes::new(counted(), slots.length);
        let observed = scrapes.observed(slots);
        let capacity = Capacity::counted(capacity, slots, &observed, parts);
        let mut requests = requested::by_pod(
            &answers.requests,
            &answers.init_containers,
            |series, uid| {
                Sightings::new(series, &scrapes).presence(slots, &scrapes, !uid.is_empty())
            },
            parts,
        );
        if reserved::has_reservations(&answers.requests) {
            // Labels of pods may come from another job of kube-state-metrics.
            let all = counted().chain(&answers.groups);
            let scrapes = Scrapes::new(all, slots.length);
            let presence = |series: &[&Series], uid: &str| {
                Sightings::new(series, &scrapes).presence(slots, &scrapes, !uid.is_empty())
            };
            let (groups, fractions) = (&answers.groups, &answers.fractions);
            reserved::replace(&mut requests, groups, fractions, presence);
        }
        let uids = PodUids::new(&answers.phases_ever);
        let claim_scrapes = Scrapes::new(answers.claimed.iter(), slots.length);
        claims::add_claimed(&mut requests, &answers.claimed, aliases, |series, pod| {
            let sightings = Sightings::new(series, &claim_scrapes);
            sightings.presence(slots, &claim_scrapes, uids.has_one(pod))
        });
        let pods = PodRecords::new(answers, slots, live, &uids, &mut requests);
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

    /// Returns whether the samples leave a gap at the start and at the end of the window, so that
    /// samples beyond it are needed to find the pods that existed in the gap.
    pub fn edge_gaps(requests: &[Series], capacity: &[Series], span: TimeSpan) -> (bool, bool) {
        let counted = || capacity.iter().chain(requests);
        let slots = Slots::new(span, counted().map(|series| &series.points[..]));
        Scrapes::new(counted(), slots.length).edge_gaps(slots)
    }

    /// Returns the hours of the marked slots. The last slot ends with the window.
    pub fn hours(&self, marked: &[bool]) -> f64 {
        let count = i64::try_from(marked.iter().filter(|slot| **slot).count()).unwrap_or(0);
        let all = i64::try_from(self.observed.len()).unwrap_or(0);
        let has_last = marked.len() == self.observed.len() && marked.last() == Some(&true);
        let length = self.span.end - self.span.start;
        let surplus = (all * self.slot - length).max(0);
        let surplus = if has_last { surplus } else { 0 };
        (count * self.slot - surplus) as f64 / 3_600_000.0
    }

    /// Returns the hours for which kube-state-metrics has no samples.
    pub fn unobserved_hours(&self) -> f64 {
        let missing: Vec<bool> = self.observed.iter().map(|observed| !observed).collect();
        self.hours(&missing)
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
            .filter(|slot| at < self.span.end && *slot < self.observed.len())
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

#[cfg(test)]
mod tests;
