//! Phases of pods in each slot of a window, from kube-state-metrics.

use std::collections::BTreeMap;

use super::slots::Slots;
use crate::model::facts::reading::PodKey;
use crate::model::values::series::Series;

use crate::stats::exporters::kube_state::pod;

/// Observed phase of a pod in each slot, as an index into [`PHASES`].
#[derive(Clone)]
pub(crate) struct Phases {
    slots: Vec<Option<usize>>,
    /// Last phase before the window, with its time.
    before: Option<(i64, usize)>,
    /// First phase after the window, with its time.
    after: Option<(i64, usize)>,
}

/// Phases of pods. Of two phases in one slot, the later one in this list wins.
const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];

/// Returns the phase of a series as an index into [`PHASES`].
pub(crate) fn phase(series: &Series) -> Option<usize> {
    PHASES
        .iter()
        .position(|name| series.label("phase") == Some(name))
}

impl Phases {
    fn new(count: usize) -> Self {
        Self {
            slots: vec![None; count],
            before: None,
            after: None,
        }
    }

    /// Creates a history with one phase in the slots up to and including `last`.
    pub(crate) fn until(last: usize, count: usize, phase: usize) -> Self {
        Self {
            slots: (0..count)
                .map(|slot| (slot <= last).then_some(phase))
                .collect(),
            before: None,
            after: None,
        }
    }

    fn observe(&mut self, at: i64, phase: usize, slots: Slots) {
        if at < slots.span.start {
            self.before = self.before.max(Some((at, phase)));
        } else if at >= slots.span.end {
            let first = self.after.is_none_or(|(first, _)| at < first);
            self.after = if first { Some((at, phase)) } else { self.after };
        } else if let Some(slot) = slots.slot_at(at) {
            self.slots[slot] = self.slots[slot].max(Some(phase));
        }
    }

    /// Returns for each slot the last phase observed up to it.
    pub(crate) fn last_observed(&self) -> Vec<Option<&'static str>> {
        let mut last = self.before.map(|(_, phase)| phase);
        let observed = self.slots.iter().map(|phase| {
            last = phase.or(last);
            last.map(|phase| PHASES[phase])
        });
        observed.collect()
    }

    /// Returns for each slot the first phase observed from it on.
    pub(crate) fn next_observed(&self) -> Vec<Option<&'static str>> {
        let mut next = self.after.map(|(_, phase)| phase);
        let mut observed: Vec<Option<&'static str>> = Vec::with_capacity(self.slots.len());
        for phase in self.slots.iter().rev() {
            next = phase.or(next);
            observed.push(next.map(|phase| PHASES[phase]));
        }
        observed.reverse();
        observed
    }

    pub(crate) fn last(&self) -> Option<(usize, String)> {
        self.slots
            .iter()
            .enumerate()
            .rev()
            .find_map(|(slot, phase)| Some((slot, PHASES[(*phase)?].to_owned())))
    }
}

/// Collects the phases by pod and UID.
pub(super) fn by_pod(answer: &[Series], slots: Slots) -> BTreeMap<(PodKey, String), Phases> {
    let mut phases = BTreeMap::new();
    for series in answer {
        let Some((id, phase)) = pod(series).zip(phase(series)) else {
            continue;
        };
        let pod_phases = phases.entry(id).or_insert_with(|| Phases::new(slots.count));
        // kube-state-metrics exports a series for every phase. The value is 1 for the current phase
        // and 0 for the others.
        for point in series.points.iter().filter(|point| point.value == 1.0) {
            pod_phases.observe(point.at, phase, slots);
        }
    }
    phases
}
