//! Sums the slices of devices (instances, partitions and shares) that a group held, by name. Slices
//! are never added to whole devices. Exporters measure each instance, but for a shared device the
//! work of each pod is unknown.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationHistory};
use super::measured_work;
use super::usage::{Usage, windows};
use crate::model::Percent;
use crate::model::values::units::{self, total, without_negative_zero};

/// Time for which a group held slices of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartHours {
    /// Number of units times hours, according to kube-state-metrics.
    pub held: f64,
    /// Units times hours that pods may have held while kube-state-metrics had no samples.
    pub unseen: f64,
    /// Units times hours that waiting pods requested but did not hold.
    pub waited: f64,
    /// `held` in GPU-hours, where each unit counts by its fraction, or `None` if any fraction is
    /// unknown.
    pub equivalent: Option<f64>,
    /// Part of the held time with measurements from exporters.
    pub measured: f64,
    /// Measured time, weighted by utilization.
    used: f64,
}

/// Slices of one name that a group held at any time.
#[derive(Clone, Debug, PartialEq)]
pub struct PartSum {
    pub name: String,
    /// Mean fraction of a device per unit.
    pub fraction: Option<f64>,
    /// Number of held units, weighted by time.
    pub allocated: f64,
    /// Number of requested units, including those of waiting pods.
    pub requested: f64,
    /// Mean of the five-minute windows, or `None` for shares, which exporters cannot measure.
    pub utilization: Option<Percent>,
    /// Number of samples behind the mean.
    pub samples: usize,
}

impl PartSum {
    /// Creates the statistics of slices that were never held.
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

/// Returns the units times a number of slots or hours.
fn units(allocation: &Allocation, slots: f64) -> f64 {
    let units = allocation.part.as_ref().map_or(0, |(_, units)| *units);
    units as f64 * slots
}

/// Counts the marked slots with samples.
fn observed_slots(ledger: &AllocationHistory, slots: &[bool]) -> f64 {
    let pairs = slots.iter().zip(&ledger.observed);
    pairs
        .filter(|(held, observed)| **held && **observed)
        .count() as f64
}

/// Returns the units times `held`, also converted to devices if all fractions are known.
fn equivalent(
    ledger: &AllocationHistory,
    indexes: &BTreeSet<usize>,
    held: impl Fn(&Allocation) -> f64,
) -> (f64, Option<f64>) {
    let allocations = || indexes.iter().map(|index| &ledger.allocations[*index]);
    let units = |allocation: &Allocation| units(allocation, held(allocation));
    let sum = total(allocations().map(units));
    let devices = |allocation: &Allocation| match units(allocation) {
        0.0 => Some(0.0),
        held => Some(held * allocation.part.as_ref()?.0.fraction?),
    };
    let equivalent: Option<f64> = allocations().map(devices).sum();
    (sum, equivalent.map(without_negative_zero))
}

impl PartHours {
    /// Sums allocations by the name of their slices.
    pub fn by_part(
        ledger: &AllocationHistory,
        usage: &Usage,
        indexes: &BTreeSet<usize>,
    ) -> BTreeMap<String, Self> {
        let hours_of = |(name, indexes): (&str, BTreeSet<usize>)| {
            let (held, equivalent) = equivalent(ledger, &indexes, |allocation| {
                ledger.hours(&allocation.held)
            });
            let hours = |slots: fn(&Allocation) -> &[bool]| {
                let of = |index: &usize| {
                    let allocation = &ledger.allocations[*index];
                    units(allocation, ledger.hours(slots(allocation)))
                };
                total(indexes.iter().map(of))
            };
            let measured = measurable(ledger, &indexes);
            let works = measured_work::by_allocation(
                ledger,
                usage.runs_of(&measured),
                &measured,
                |allocation| matches!(&allocation.part, Some((part, _)) if part.instance),
            );
            let work = measured_work::sum_within_held(ledger, works, |part| units(part, 1.0));
            let hours = Self {
                held,
                unseen: hours(|allocation| &allocation.gaps.unseen),
                waited: (hours(|allocation| &allocation.requested) - held).max(0.0),
                equivalent,
                measured: work.seconds / 3600.0,
                used: work.sum / 100.0 / 3600.0,
            };
            (name.to_owned(), hours)
        };
        by_name(ledger, indexes).into_iter().map(hours_of).collect()
    }

    /// Returns the measured time, weighted by utilization, or `None` without measurements.
    pub fn used(&self) -> Option<f64> {
        (self.measured > 0.0).then_some(self.used)
    }

    /// Returns the used percentage of the measured time, or `None` without measurements.
    pub fn utilization(&self) -> Option<Percent> {
        Percent::from_ratio(self.used, self.measured)
    }

    /// Returns the mean fraction of a device per unit, weighted by held time.
    pub fn fraction(&self) -> Option<f64> {
        self.equivalent
            .filter(|_| self.held > 0.0)
            .map(|devices| devices / self.held)
    }

    pub fn add(&mut self, other: &Self) {
        self.equivalent = self.equivalent.zip(other.equivalent).map(|(a, b)| a + b);
        self.held += other.held;
        self.unseen += other.unseen;
        self.waited += other.waited;
        self.measured += other.measured;
        self.used += other.used;
    }

    /// Creates a sum of no allocations, to which [`Self::add`] adds others.
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

/// Computes the statistics of allocations of slices by name, or an empty list if no slot has
/// samples.
pub fn sums(ledger: &AllocationHistory, usage: &Usage, indexes: &BTreeSet<usize>) -> Vec<PartSum> {
    let all_slots = ledger.observed_slots() as f64;
    if all_slots == 0.0 {
        return Vec::new();
    }
    let part_sum = |(name, indexes): (&str, BTreeSet<usize>)| {
        let (held, devices) = equivalent(ledger, &indexes, |allocation| {
            observed_slots(ledger, &allocation.held)
        });
        let requested = total(indexes.iter().map(|index| {
            let allocation = &ledger.allocations[*index];
            units(allocation, observed_slots(ledger, &allocation.requested))
        }));
        let measurable = measurable(ledger, &indexes);
        let means: Vec<Percent> = windows(ledger.span, usage.runs_of(&measurable))
            .into_values()
            .collect();
        PartSum {
            name: name.to_owned(),
            fraction: devices.filter(|_| held > 0.0).map(|devices| devices / held),
            allocated: held / all_slots,
            requested: requested / all_slots,
            utilization: units::mean(means.into_iter()),
            samples: usage.runs_of(&measurable).map(|run| run.values.len()).sum(),
        }
    };
    by_name(ledger, indexes).into_iter().map(part_sum).collect()
}
