//! Sums the slices of devices that a group held (instances, partitions and shares), by name. They
//! are never added to whole devices. Exporters measure an instance; the part of one pod in the work
//! of a shared device is unknown.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationHistory};
use super::usage::{Usage, windows};
use crate::model::Percent;

/// Hours for which a group held slices of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartHours {
    /// Units times hours, according to kube-state-metrics.
    pub held: f64,
    /// Requested but not held, that is, waiting.
    pub waited: f64,
    /// `held` in GPU-hours, by the fraction of each unit; `None` if a fraction is unknown.
    pub equivalent: Option<f64>,
    /// The part of the held time that exporters measured.
    pub measured: f64,
    /// Measured time weighted by utilization.
    used: f64,
}

/// Slices of one name that a group held at some time.
#[derive(Clone, Debug, PartialEq)]
pub struct PartSum {
    pub name: String,
    /// Mean fraction of a device per unit.
    pub fraction: Option<f64>,
    /// Units held, weighted by time.
    pub allocated: f64,
    /// Units requested, including those of waiting pods.
    pub requested: f64,
    /// Mean of the five-minute windows; `None` for shares, which cannot be measured.
    pub utilization: Option<Percent>,
    /// Number of samples behind the mean.
    pub samples: usize,
}

impl PartSum {
    /// Builds an empty sum, for slices that were not held.
    pub fn nothing(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            fraction: None,
            allocated: 0.0,
            requested: 0.0,
            utilization: None,
            samples: 0,
        }
    }
}

/// Groups the indexes of allocations by the name of their slice.
pub fn by_name<'l>(
    ledger: &'l AllocationHistory,
    indexes: &BTreeSet<usize>,
) -> BTreeMap<&'l str, BTreeSet<usize>> {
    let mut names: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for index in indexes {
        if let Some((part, _)) = &ledger.allocations[*index].part {
            names.entry(&part.name).or_default().insert(*index);
        }
    }
    names
}

/// Units times observed slots.
fn units(ledger: &AllocationHistory, allocation: &Allocation, slots: &[bool]) -> f64 {
    let seen = slots
        .iter()
        .zip(&ledger.observed)
        .filter(|(held, observed)| **held && **observed)
        .count();
    seen as f64
        * allocation
            .part
            .as_ref()
            .map_or(0.0, |(_, units)| *units as f64)
}

/// Units times slots, and the same in devices if all fractions are known.
fn equivalent(ledger: &AllocationHistory, indexes: &BTreeSet<usize>) -> (f64, Option<f64>) {
    let allocations = || indexes.iter().map(|index| &ledger.allocations[*index]);
    let held: f64 = allocations()
        .map(|allocation| units(ledger, allocation, &allocation.held))
        .sum();
    let devices = |allocation: &Allocation| {
        let held = units(ledger, allocation, &allocation.held);
        if held == 0.0 {
            Some(0.0)
        } else {
            Some(held * allocation.part.as_ref()?.0.fraction?)
        }
    };
    (held, allocations().map(devices).sum())
}

impl PartHours {
    /// Sums allocations by the name of their slice.
    pub fn by_part(
        ledger: &AllocationHistory,
        usage: &Usage,
        indexes: &BTreeSet<usize>,
    ) -> BTreeMap<String, Self> {
        let slot_hours = ledger.slot as f64 / 3_600_000.0;
        let hours_of = |(name, indexes): (&str, BTreeSet<usize>)| {
            let allocations = || indexes.iter().map(|index| &ledger.allocations[*index]);
            let (held, equivalent) = equivalent(ledger, &indexes);
            let requested: f64 = allocations()
                .map(|allocation| units(ledger, allocation, &allocation.requested))
                .sum();
            let is_observed =
                |at: i64| ledger.slot_of(at).is_some_and(|slot| ledger.observed[slot]);
            let (mut measured, mut used) = (0.0, 0.0);
            for run in usage.runs_of(&measurable(ledger, &indexes)) {
                for point in run.values.iter().filter(|point| is_observed(point.at)) {
                    measured += run.seconds / 3600.0;
                    used += run.seconds / 3600.0 * point.value / 100.0;
                }
            }
            let hours = Self {
                held: held * slot_hours,
                waited: (requested - held).max(0.0) * slot_hours,
                equivalent: equivalent.map(|devices| devices * slot_hours),
                measured,
                used,
            };
            (name.to_owned(), hours)
        };
        by_name(ledger, indexes).into_iter().map(hours_of).collect()
    }

    /// Weights the measured time by utilization; `None` without measurements.
    pub fn used(&self) -> Option<f64> {
        (self.measured > 0.0).then_some(self.used)
    }

    /// Computes the used share of the measured time; `None` without measurements.
    pub fn utilization(&self) -> Option<Percent> {
        Percent::from_ratio(self.used, self.measured)
    }

    /// Computes the mean fraction of a device per unit, weighted by held time.
    pub fn fraction(&self) -> Option<f64> {
        self.equivalent
            .filter(|_| self.held > 0.0)
            .map(|devices| devices / self.held)
    }

    pub fn add(&mut self, other: &Self) {
        self.equivalent = self.equivalent.zip(other.equivalent).map(|(a, b)| a + b);
        self.held += other.held;
        self.waited += other.waited;
        self.measured += other.measured;
        self.used += other.used;
    }

    /// Builds the neutral element of [`Self::add`], with a known equivalent of zero.
    pub fn none() -> Self {
        Self {
            equivalent: Some(0.0),
            ..Self::default()
        }
    }
}

/// Selects the allocations whose slices exporters measure separately.
fn measurable(ledger: &AllocationHistory, indexes: &BTreeSet<usize>) -> BTreeSet<usize> {
    let is_instance = |index: &&usize| {
        ledger.allocations[**index]
            .part
            .as_ref()
            .is_some_and(|(part, _)| part.instance)
    };
    indexes.iter().filter(is_instance).copied().collect()
}

/// Statistics of allocations of slices, by name; empty without observed slots.
pub fn sums(ledger: &AllocationHistory, usage: &Usage, indexes: &BTreeSet<usize>) -> Vec<PartSum> {
    let observed_slots = ledger.observed_slots() as f64;
    if observed_slots == 0.0 {
        return Vec::new();
    }
    let part_sum = |(name, indexes): (&str, BTreeSet<usize>)| {
        let (held, devices) = equivalent(ledger, &indexes);
        let requested: f64 = indexes
            .iter()
            .map(|index| {
                units(
                    ledger,
                    &ledger.allocations[*index],
                    &ledger.allocations[*index].requested,
                )
            })
            .sum();
        let measurable = measurable(ledger, &indexes);
        let means: Vec<Percent> = windows(ledger.span, usage.runs_of(&measurable))
            .into_values()
            .collect();
        PartSum {
            name: name.to_owned(),
            fraction: devices.filter(|_| held > 0.0).map(|devices| devices / held),
            allocated: held / observed_slots,
            requested: requested / observed_slots,
            utilization: crate::model::values::units::mean(means.into_iter()),
            samples: usage.runs_of(&measurable).map(|run| run.values.len()).sum(),
        }
    };
    by_name(ledger, indexes).into_iter().map(part_sum).collect()
}
