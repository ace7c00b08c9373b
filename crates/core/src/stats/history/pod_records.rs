//! Builds allocations from kube-state-metrics' records about pods: phases, owners and labels.

use std::collections::{BTreeMap, BTreeSet};

use super::allocation::{Allocation, AllocationGaps, AllocationSeries};
use super::phases;
use super::phases::{Phases, phase};
use super::presence::Presence;
use super::requested::{PodPlace, Requested};
use super::slots::Slots;
use super::top_owner::{LiveOwners, Tops};
use crate::model::GpuCount;
use crate::model::facts::reading::PodKey;
use crate::model::values::series::Series;
use crate::stats::exporters::kube_state::{names, pod};

/// A pod with its UID.
pub(super) type PodId = (PodKey, String);
type PodLabels = BTreeMap<PodId, BTreeMap<String, String>>;

/// UIDs of pods by name.
pub(super) struct PodUids(BTreeMap<PodKey, BTreeSet<String>>);

impl PodUids {
    pub(super) fn new(answer: &[Series]) -> Self {
        let mut uids: BTreeMap<PodKey, BTreeSet<String>> = BTreeMap::new();
        for (key, uid) in answer.iter().filter_map(pod) {
            uids.entry(key).or_default().insert(uid);
        }
        Self(uids)
    }

    /// Returns true if all samples of this name belong to one pod.
    pub(super) fn has_one(&self, pod: &PodKey) -> bool {
        let uids = self.0.get(pod);
        uids.is_some_and(|uids| uids.len() == 1 && !uids.contains(""))
    }

    fn last(&self, pod: &PodKey) -> String {
        let uids = self.0.get(pod);
        uids.and_then(BTreeSet::last).cloned().unwrap_or_default()
    }
}

/// Records of kube-state-metrics about pods that requested devices.
pub(super) struct PodRecords {
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
    pub(super) fn new(
        answers: &AllocationSeries,
        slots: Slots,
        live: &LiveOwners,
        uids: &PodUids,
        requests: &mut [(PodPlace, Requested)],
    ) -> Self {
        let mut last_seen: BTreeMap<PodId, usize> = BTreeMap::new();
        for ((key, uid, _), requested) in requests {
            if uid.is_empty() {
                *uid = uids.last(key);
            }
            let last = requested.presence.seen.iter().rposition(|seen| *seen);
            let seen = last_seen.entry((key.clone(), uid.clone())).or_default();
            *seen = last.unwrap_or(0).max(*seen);
        }
        Self {
            count: slots.count,
            phases: phases::by_pod(&answers.phases, slots),
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

    pub(super) fn allocation(
        &self,
        (key, uid, node): PodPlace,
        requested: Requested,
    ) -> Allocation {
        let Requested {
            gpus,
            part,
            presence,
        } = requested;
        let id = (key, uid);
        let phases = self.phases(&id);
        let life = PodLife::new(&presence, phases.as_ref(), self.count);
        let if_bound = |slots: &[bool]| -> Vec<bool> {
            slots.iter().map(|slot| *slot && !node.is_empty()).collect()
        };
        let held = if_bound(&life.requested);
        let both = |slots: &[bool]| held.iter().zip(slots).map(|(a, b)| *a && *b).collect();
        let names = |by_pod: &Option<PodLabels>| {
            let by_pod = by_pod.as_ref()?;
            Some(by_pod.get(&id).cloned().unwrap_or_default())
        };
        Allocation {
            top: self.tops.top_of(&id.0),
            gpus: GpuCount(gpus),
            part,
            running: both(&life.running),
            gaps: AllocationGaps {
                bridged: both(&presence.bridged),
                unseen: if_bound(&life.unseen),
            },
            held,
            requested: life.requested,
            phase: phases.as_ref().and_then(Phases::last),
            labels: names(&self.labels),
            annotations: names(&self.annotations),
            node,
            pod: id.0,
        }
    }
}

/// Slots of a pod's life.
struct PodLife {
    /// Slots while it was pending or running.
    requested: Vec<bool>,
    running: Vec<bool>,
    /// Slots while it may have been pending or running.
    unseen: Vec<bool>,
}

impl PodLife {
    fn new(presence: &Presence, phases: Option<&Phases>, count: usize) -> Self {
        let before = phases.map_or_else(|| vec![None; count], Phases::last_observed);
        let after = phases.map_or_else(|| vec![None; count], Phases::next_observed);
        let is_active = |phase: &str| matches!(phase, "Pending" | "Running");
        let mut life = Self {
            requested: vec![false; count],
            running: vec![false; count],
            unseen: vec![false; count],
        };
        for slot in 0..count {
            // A pod without samples of its phase counts as running.
            let phase = before[slot].or(after[slot]);
            let active = phase.is_none_or(is_active);
            let ends_in_gap =
                presence.bridged[slot] && after[slot].is_some_and(|phase| !is_active(phase));
            let exists = presence.seen[slot] || (presence.bridged[slot] && !ends_in_gap);
            life.requested[slot] = exists && active;
            life.running[slot] = phase.is_none_or(|phase| phase == "Running");
            life.unseen[slot] = before[slot].is_none_or(is_active)
                && (presence.unseen[slot] || (ends_in_gap && active));
        }
        life
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
