//! Sums of parts of devices that a group held: instances, partitions and shares, by their name.
//! They are never added to whole devices. What an instance did is measured; what one of several
//! pods did on a shared device, nobody knows.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationHistory};
use super::usage::{Usage, windows};
use crate::model::Percent;

/// Hours in which a group held parts of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartHours {
    /// Units by hours, as kube-state-metrics saw them.
    pub held: f64,
    /// Requested and not held: waiting.
    pub waited: f64,
    /// The same as `held` in GPU-hours, by the fraction of each unit; `None` where one fraction is
    /// not known.
    pub equivalent: Option<f64>,
    /// Of those held, the part that exporters measured.
    pub measured: f64,
    /// Measured time by utilization.
    used: f64,
}

/// Parts of one name that a group held at some time.
#[derive(Clone, Debug, PartialEq)]
pub struct PartSum {
    pub name: String,
    /// What one unit is of a device, in the mean.
    pub fraction: Option<f64>,
    /// Units held, weighted by time.
    pub allocated: f64,
    /// Units requested, waiting ones included.
    pub requested: f64,
    /// Mean of the five-minute windows; `None` for shares, which nobody measures.
    pub utilization: Option<Percent>,
    /// Samples that it rests on.
    pub samples: usize,
}

impl PartSum {
    /// Returns the sum of parts that nobody held.
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

/// Returns the places of allocations by the name of their part.
pub fn by_name<'l>(
    ledger: &'l AllocationHistory,
    own: &BTreeSet<usize>,
) -> BTreeMap<&'l str, BTreeSet<usize>> {
    let mut names: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for index in own {
        if let Some((part, _)) = &ledger.tenures[*index].part {
            names.entry(&part.name).or_default().insert(*index);
        }
    }
    names
}

/// Units by slots in which somebody looked.
fn units(ledger: &AllocationHistory, tenure: &Allocation, slots: &[bool]) -> f64 {
    let seen = slots
        .iter()
        .zip(&ledger.observed)
        .filter(|(held, observed)| **held && **observed)
        .count();
    seen as f64 * tenure.part.as_ref().map_or(0.0, |(_, units)| *units as f64)
}

/// Units by slots, and the same in devices, where every fraction is known.
fn equivalent(ledger: &AllocationHistory, own: &BTreeSet<usize>) -> (f64, Option<f64>) {
    let tenures = || own.iter().map(|index| &ledger.tenures[*index]);
    let held: f64 = tenures()
        .map(|tenure| units(ledger, tenure, &tenure.held))
        .sum();
    let of = |tenure: &Allocation| {
        let held = units(ledger, tenure, &tenure.held);
        if held == 0.0 {
            Some(0.0)
        } else {
            Some(held * tenure.part.as_ref()?.0.fraction?)
        }
    };
    (held, tenures().map(of).sum())
}

impl PartHours {
    /// Returns those of allocations by the name of their part.
    pub fn of(
        ledger: &AllocationHistory,
        usage: &Usage,
        own: &BTreeSet<usize>,
    ) -> BTreeMap<String, Self> {
        let each = ledger.slot as f64 / 3_600_000.0;
        let of = |(name, own): (&str, BTreeSet<usize>)| {
            let tenures = || own.iter().map(|index| &ledger.tenures[*index]);
            let (held, equivalent) = equivalent(ledger, &own);
            let requested: f64 = tenures()
                .map(|tenure| units(ledger, tenure, &tenure.requested))
                .sum();
            let looked = |at: i64| ledger.slot_of(at).is_some_and(|slot| ledger.observed[slot]);
            let (mut measured, mut used) = (0.0, 0.0);
            for run in usage.runs_of(&measurable(ledger, &own)) {
                for point in run.values.iter().filter(|point| looked(point.at)) {
                    measured += run.seconds / 3600.0;
                    used += run.seconds / 3600.0 * point.value / 100.0;
                }
            }
            let hours = Self {
                held: held * each,
                waited: (requested - held).max(0.0) * each,
                equivalent: equivalent.map(|devices| devices * each),
                measured,
                used,
            };
            (name.to_owned(), hours)
        };
        by_name(ledger, own).into_iter().map(of).collect()
    }

    /// Returns measured time by utilization; `None` where nothing was measured.
    pub fn used(&self) -> Option<f64> {
        (self.measured > 0.0).then_some(self.used)
    }

    /// Returns how much of the measured time was used; `None` where nothing was measured.
    pub fn utilization(&self) -> Option<Percent> {
        Percent::of_whole(self.used, self.measured)
    }

    /// Returns what one unit is of a device, in the mean over the time held.
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

    /// Returns what an empty sum is.
    pub fn none() -> Self {
        Self {
            equivalent: Some(0.0),
            ..Self::default()
        }
    }
}

/// Those of allocations whose parts exporters measure by themselves.
fn measurable(ledger: &AllocationHistory, own: &BTreeSet<usize>) -> BTreeSet<usize> {
    let is_instance = |index: &&usize| {
        ledger.tenures[**index]
            .part
            .as_ref()
            .is_some_and(|(part, _)| part.instance)
    };
    own.iter().filter(is_instance).copied().collect()
}

/// Returns what some allocations of parts came to, by name; nothing where nobody looked.
pub fn sums(ledger: &AllocationHistory, usage: &Usage, own: &BTreeSet<usize>) -> Vec<PartSum> {
    let looks = ledger.looks() as f64;
    if looks == 0.0 {
        return Vec::new();
    }
    let of = |(name, own): (&str, BTreeSet<usize>)| {
        let (held, devices) = equivalent(ledger, &own);
        let requested: f64 = own
            .iter()
            .map(|index| {
                units(
                    ledger,
                    &ledger.tenures[*index],
                    &ledger.tenures[*index].requested,
                )
            })
            .sum();
        let measurable = measurable(ledger, &own);
        let means: Vec<Percent> = windows(ledger.stretch, usage.runs_of(&measurable))
            .into_values()
            .collect();
        PartSum {
            name: name.to_owned(),
            fraction: devices.filter(|_| held > 0.0).map(|devices| devices / held),
            allocated: held / looks,
            requested: requested / looks,
            utilization: crate::model::values::units::mean(means.into_iter()),
            samples: usage.runs_of(&measurable).map(|run| run.values.len()).sum(),
        }
    };
    by_name(ledger, own).into_iter().map(of).collect()
}
