//! The share of the held time behind utilization and energy.

use super::{GpuHours, PartHours};
use crate::model::Percent;
use crate::model::values::units::total;

/// Percentage below which a sum of energies is much too low.
const MOST: f64 = 90.0;

impl GpuHours {
    /// Returns the percentage if the energy of a notable part of the held time is unknown.
    pub fn partial_energy(&self) -> Option<Percent> {
        self.energy_coverage()
            .filter(|Percent(share)| *share < MOST)
    }

    /// Returns the percentage of the held time, including slices by their fraction, for which the
    /// energy was measured. `None` without any energy. The energy of slices is unknown.
    pub fn energy_coverage(&self) -> Option<Percent> {
        self.energy?;
        let of_parts = |hours: &PartHours| hours.held * hours.fraction().unwrap_or(1.0);
        let held = self.held + total(self.parts.values().map(of_parts));
        Percent::from_ratio(self.powered.min(held), held)
    }

    /// Returns the measured percentage of the held and the unseen time, or `None` if there is none.
    /// A slice counts by its fraction, or as one device if the fraction is unknown.
    pub fn covered(&self) -> Option<Percent> {
        let weighed = |hours: &PartHours| {
            let fraction = hours.fraction().unwrap_or(1.0);
            (
                hours.measured.min(hours.held) * fraction,
                (hours.held + hours.unseen) * fraction,
            )
        };
        let whole_devices = (self.measured.min(self.held), self.held + self.unseen);
        let (measured, held) = self
            .parts
            .values()
            .map(weighed)
            .fold(whole_devices, |(a, b), (measured, held)| {
                (a + measured, b + held)
            });
        Percent::from_ratio(measured, held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_with_unknown_energy_is_partial() {
        let hours = |held: f64, energy: Option<f64>, powered: f64| GpuHours {
            held,
            energy,
            powered,
            ..GpuHours::default()
        };
        // 3 of 8 GPU-hours have samples of power.
        let mut sum = hours(3.0, Some(0.9), 3.0);
        assert_eq!(sum.partial_energy(), None);
        sum.add(hours(5.0, None, 0.0));
        assert_eq!(sum.energy, Some(0.9));
        assert_eq!(sum.partial_energy(), Some(Percent(37.5)));
        assert_eq!(hours(5.0, None, 0.0).energy_coverage(), None);
    }
}
