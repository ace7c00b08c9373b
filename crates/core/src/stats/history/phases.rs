//! Phases of pods in each slot of a window, from kube-state-metrics.

use std::collections::BTreeMap;

use crate::model::facts::reading::PodKey;
use crate::model::values::series::Series;

use crate::stats::exporters::kube_state::pod;

/// Observed phase of a pod in each slot, as an index into [`PHASES`].
#[derive(Clone)]
pub(crate) struct Phases(Vec<Option<usize>>);

/// Phases of pods. Of two phases in one slot, the later one in this list wins.
const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];

/// Returns the phase of a series as an index into [`PHASES`].
pub(crate) fn phase(series: &Series) -> Option<usize> {
    PHASES
        .iter()
        .position(|name| series.label("phase") == Some(name))
}

impl Phases {
    /// Creates a history with one phase in the slots up to and including `last`.
    pub(crate) fn until(last: usize, count: usize, phase: usize) -> Self {
        Self(
            (0..count)
                .map(|slot| (slot <= last).then_some(phase))
                .collect(),
        )
    }

    /// Returns the last phase observed up to a slot, or otherwise the first one after it.
    pub(crate) fn at_slot(&self, slot: usize) -> Option<&'static str> {
        let before = self.0[..=slot].iter().rev().find_map(|phase| *phase);
        before
            .or_else(|| self.0[slot..].iter().find_map(|phase| *phase))
            .map(|phase| PHASES[phase])
    }

    pub(crate) fn last(&self) -> Option<(usize, String)> {
        self.0
            .iter()
            .enumerate()
            .rev()
            .find_map(|(slot, phase)| Some((slot, PHASES[(*phase)?].to_owned())))
    }
}

/// Collects the phases over `count` slots by pod and UID. `slot_of` returns the slot of a time.
pub(crate) fn by_pod(
    answer: &[Series],
    count: usize,
    slot_of: impl Fn(i64) -> Option<usize>,
) -> BTreeMap<(PodKey, String), Phases> {
    let mut phases = BTreeMap::new();
    for series in answer {
        let Some((id, phase)) = pod(series).zip(phase(series)) else {
            continue;
        };
        let Phases(slots) = phases
            .entry(id)
            .or_insert_with(|| Phases(vec![None; count]));
        // kube-state-metrics exports a series for every phase. The value is 1 for the current phase
        // and 0 for the others.
        for point in series.points.iter().filter(|point| point.value == 1.0) {
            if let Some(slot) = slot_of(point.at) {
                slots[slot] = slots[slot].max(Some(phase));
            }
        }
    }
    phases
}
