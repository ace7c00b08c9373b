//! Sums the slices of devices (instances, partitions and shares) that a group held, by name. They
//! are never added to whole devices. Exporters measure each instance. For a shared device, it is
//! unknown how much of the work each pod did.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationHistory};
use super::usage::{Usage, windows};
use crate::model::Percent;
use crate::model::values::units::{self, total, without_negative_zero};

/// The hours in which a group held slices with the same name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartHours {
    /// The number of units times hours, according to kube-state-metrics.
    pub held: f64,
    /// The same for units that were requested but not held, because the pod was waiting.
    pub waited: f64,
    /// `held` in GPU-hours, where each unit counts by its fraction. `None` if a fraction is
    /// unknown.
    pub equivalent: Option<f64>,
    /// The part of the held time for which exporters reported measurements.
    pub measured: f64,
    /// The measured time, weighted by utilization.
    used: f64,
}

/// Slices with the same name that a group held at some time.
#[derive(Clone, Debug, PartialEq)]
pub struct PartSum {
    pub name: String,
    /// The mean fraction of a device that a unit has.
    pub fraction: Option<f64>,
    /// The number of units held, weighted by time.
    pub allocated: f64,
    /// The number of units requested, including those of waiting pods.
    pub requested: f64,
    /// The mean of the five-minute windows. `None` for shares, which cannot be measured.
    pub utilization: Option<Percent>,
    /// The number of samples behind the mean.
    pub samples: usize,
}

impl PartSum {
    /// Builds an empty sum, for slices that were not held at all.
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

/// Groups the indexes of allocations by the name of their slices.
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

/// Multiplies the units by the number of observed slots.
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

/// Multiplies the units by the number of slots. Also converts the result to devices, if all
/// fractions are known.
fn equivalent(ledger: &AllocationHistory, indexes: &BTreeSet<usize>) -> (f64, Option<f64>) {
    let allocations = || indexes.iter().map(|index| &ledger.allocations[*index]);
    let held = total(allocations().map(|allocation| units(ledger, allocation, &allocation.held)));
    let devices = |allocation: &Allocation| {
        let held = units(ledger, allocation, &allocation.held);
        if held == 0.0 {
            Some(0.0)
        } else {
            Some(held * allocation.part.as_ref()?.0.fraction?)
        }
    };
    let equivalent: Option<f64> = allocations().map(devices).sum();
    (held, equivalent.map(without_negative_zero))
}

impl PartHours {
    /// Sums allocations by the name of their slices.
    pub fn by_part(
        ledger: &AllocationHistory,
        usage: &Usage,
        indexes: &BTreeSet<usize>,
    ) -> BTreeMap<String, Self> {
        let slot_hours = ledger.slot as f64 / 3_600_000.0;
        let hours_of = |(name, indexes): (&str, BTreeSet<usize>)| {
            let allocations = || indexes.iter().map(|index| &ledger.allocations[*index]);
            let (held, equivalent) = equivalent(ledger, &indexes);
            let requested = total(
                allocations().map(|allocation| units(ledger, allocation, &allocation.requested)),
            );
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

    /// Returns the measured time, weighted by utilization. `None` if there are no measurements.
    pub fn used(&self) -> Option<f64> {
        (self.measured > 0.0).then_some(self.used)
    }

    /// Returns which percentage of the measured time was used. `None` if there are no measurements.
    pub fn utilization(&self) -> Option<Percent> {
        Percent::from_ratio(self.used, self.measured)
    }

    /// Returns the mean fraction of a device that a unit has, weighted by held time.
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

    /// Builds a sum of nothing, to which others are added with [`Self::add`]. Its equivalent is
    /// known to be zero.
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

/// Computes the statistics of allocations of slices, by name. The result is empty if no slot has
/// samples.
pub fn sums(ledger: &AllocationHistory, usage: &Usage, indexes: &BTreeSet<usize>) -> Vec<PartSum> {
    let observed_slots = ledger.observed_slots() as f64;
    if observed_slots == 0.0 {
        return Vec::new();
    }
    let part_sum = |(name, indexes): (&str, BTreeSet<usize>)| {
        let (held, devices) = equivalent(ledger, &indexes);
        let requested = total(indexes.iter().map(|index| {
            let allocation = &ledger.allocations[*index];
            units(ledger, allocation, &allocation.requested)
        }));
        let measurable = measurable(ledger, &indexes);
        let means: Vec<Percent> = windows(ledger.span, usage.runs_of(&measurable))
            .into_values()
            .collect();
        PartSum {
            name: name.to_owned(),
            fraction: devices.filter(|_| held > 0.0).map(|devices| devices / held),
            allocated: held / observed_slots,
            requested: requested / observed_slots,
            utilization: units::mean(means.into_iter()),
            samples: usage.runs_of(&measurable).map(|run| run.values.len()).sum(),
        }
    };
    by_name(ledger, indexes).into_iter().map(part_sum).collect()
}
