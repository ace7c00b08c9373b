//! Assigns measured time to the allocations that held the devices. Each second of a device counts
//! once, so that the sums of groups add up to the sum of all.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationHistory};
use super::usage::HolderSamples;

/// Measured time of an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct MeasuredWork {
    pub(super) seconds: f64,
    /// Sum of values times seconds.
    pub(super) sum: f64,
}

impl MeasuredWork {
    /// Reduces the time to at most `seconds`. More devices than a pod requested can name it, for
    /// example if an exporter reports its old and its new devices at the same time.
    fn at_most(self, seconds: f64) -> Self {
        if self.seconds <= seconds {
            return self;
        }
        Self {
            seconds,
            sum: self.sum / self.seconds * seconds,
        }
    }
}

/// Adds up allocations, each at most for the time that it held its devices. `units` is the number
/// of its devices or slices.
pub(super) fn sum_within_held(
    ledger: &AllocationHistory,
    works: BTreeMap<usize, MeasuredWork>,
    units: impl Fn(&Allocation) -> f64,
) -> MeasuredWork {
    let mut sum = MeasuredWork::default();
    for (index, work) in works {
        let allocation = &ledger.allocations[index];
        let held = ledger.hours(&allocation.held) * units(allocation);
        let work = work.at_most(held * 3600.0);
        sum.seconds += work.seconds;
        sum.sum += work.sum;
    }
    sum
}

/// Measures the allocations of a group. Only allocations that satisfy `is_measured` share the time
/// of a device, equally, while they held it.
pub(super) fn by_allocation<'u>(
    ledger: &AllocationHistory,
    runs: impl Iterator<Item = &'u HolderSamples>,
    group: &BTreeSet<usize>,
    is_measured: impl Fn(&Allocation) -> bool,
) -> BTreeMap<usize, MeasuredWork> {
    let mut works: BTreeMap<usize, MeasuredWork> = BTreeMap::new();
    for run in runs {
        let holders: Vec<usize> = run
            .holders
            .iter()
            .copied()
            .filter(|holder| is_measured(&ledger.allocations[*holder]))
            .collect();
        for (point, seconds) in run.weighted() {
            let Some(slot) = ledger.slot_of(point.at) else {
                continue;
            };
            let holds = |holder: &&usize| ledger.allocations[**holder].held[slot];
            let sharers = holders.iter().filter(holds).count() as f64;
            let members = holders.iter().filter(holds);
            for member in members.filter(|holder| group.contains(*holder)) {
                let work = works.entry(*member).or_default();
                work.seconds += seconds / sharers;
                work.sum += point.value * seconds / sharers;
            }
        }
    }
    works
}
