//! Rounds measured values alike in JSON and tables, and counts the samples behind them.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::values::text::count;
pub use gpuctl_core::model::values::units::rounded;
use gpuctl_core::model::values::units::without_negative_zero;
use gpuctl_core::model::{Figures, Mebibytes, Percent, Reading, Readings, Watts};

/// Rounds a fraction to four decimals.
pub(crate) fn fine(fraction: f64) -> f64 {
    without_negative_zero((fraction * 10_000.0).round() / 10_000.0)
}

/// How many devices and samples the measured values are based on.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// Devices that the exporters report.
    pub gpus: u64,
    /// Devices with a fresh sample.
    pub gpus_sampled: u64,
    /// Devices whose newest sample is older than two scrapes.
    pub gpus_stale: u64,
    /// Number of samples that were used. It grows with the number of values that are shown. Checks
    /// for problems add samples only for devices that have one.
    pub samples: u64,
    /// Samples with values outside the physically possible range.
    pub samples_dropped: u64,
}

impl From<&Readings> for Coverage {
    fn from(readings: &Readings) -> Self {
        let count = |filter: fn(&Reading) -> bool| {
            readings
                .devices
                .iter()
                .filter(|reading| filter(reading))
                .count() as u64
        };
        Self {
            gpus: readings.devices.len() as u64,
            gpus_sampled: count(|reading| reading.utilization.is_some()),
            gpus_stale: count(|reading| reading.stale),
            samples: readings.samples,
            samples_dropped: readings.dropped,
        }
    }
}

/// The mean utilization of held devices, and the number of devices that were sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeldUse {
    /// `None` if no held device was sampled.
    pub utilization: Option<Percent>,
    /// Number of sampled whole devices.
    pub sampled: u64,
    /// Number of sampled MIG instances and partitions, which do not count as GPUs.
    pub slices_sampled: u64,
}

impl HeldUse {
    pub fn from_readings<'a>(held: impl Iterator<Item = &'a Reading> + Clone) -> Self {
        let sampled = held.clone().filter(|reading| reading.utilization.is_some());
        let slices_sampled = sampled
            .clone()
            .filter(|reading| reading.slice.is_some())
            .count() as u64;
        Self {
            utilization: Figures::from_readings(held).utilization,
            sampled: sampled.count() as u64 - slices_sampled,
            slices_sampled,
        }
    }

    /// Formats the number of sampled devices, such as `mean of 25 of 27 held, 2 unknown`. `held` is
    /// the number of held whole devices.
    pub(crate) fn basis(&self, held: Option<u64>) -> String {
        let sampled = self.sampled;
        let slices = count(self.slices_sampled, "slice");
        let with_slices = match (sampled, self.slices_sampled) {
            (_, 0) => String::new(),
            (0, _) if held.unwrap_or(0) == 0 => return format!("mean of {slices} held"),
            _ => format!(" and {slices}"),
        };
        match held {
            Some(held) if held > sampled => format!(
                "mean of {sampled} of {held} held{with_slices}, {} unknown",
                held - sampled
            ),
            _ => format!("mean of {sampled} held{with_slices}"),
        }
    }
}

/// Converts percent to a rate from 0 to 1, rounded to four decimals.
pub fn rate(percent: Percent) -> f64 {
    without_negative_zero((percent.0 * 100.0).round() / 10_000.0)
}

/// Formats a percentage, such as `87%`, or `-` if it is unknown.
pub fn percent(value: Option<Percent>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}%"))
}

/// Formats used and total memory rounded to tenths, such as `68Gi/80Gi`, or returns `None` if one
/// of them is unknown.
pub fn memory(used: Option<Mebibytes>, total: Option<Mebibytes>) -> Option<String> {
    let (used, total) = used.zip(total)?;
    Some(format!(
        "{}Gi/{}Gi",
        tenths(used.gibibytes()),
        tenths(total.gibibytes())
    ))
}

/// Formats the mean memory per device.
pub fn memory_of(figures: &Figures) -> Option<String> {
    memory(figures.memory_used, figures.memory_total)
}

/// Formats the use of GPUs, such as `87% mean, 34% lowest, of 15 of 16 GPUs; memory 68Gi/80Gi per
/// GPU; 4992 W in total`.
///
/// `held` is the number of held GPUs, which may include GPUs without samples. Returns `None` if no
/// GPU was sampled.
pub(crate) fn usage(figures: &Figures, held: u64) -> Option<String> {
    let mut text = format!("{} mean", percent(Some(figures.utilization?)));
    // Omit the lowest value of a single device, because it is the mean.
    if let Some(lowest) = figures.lowest.filter(|_| figures.sampled > 1) {
        text.push_str(&format!(", {} lowest", percent(Some(lowest))));
    }
    let held = held.max(figures.devices);
    if held > 1 {
        text.push_str(&format!(", of {} of {held} GPUs", figures.sampled));
    }
    if let Some(memory) = memory_of(figures) {
        let per_gpu = if figures.devices > 1 { " per GPU" } else { "" };
        text.push_str(&format!("; memory {memory}{per_gpu}"));
    }
    if let Some(Watts(watts)) = figures.power_in_all {
        let in_total = if figures.devices > 1 { " in total" } else { "" };
        text.push_str(&format!("; {watts:.0} W{in_total}"));
    }
    Some(text)
}

/// Formats a number with up to one decimal, such as `68` or `79.7`.
fn tenths(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0")
        .map_or(text.clone(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_states_the_devices_that_it_covers() {
        let reading = |utilization: Option<f64>, slice: Option<(&str, u32)>| Reading {
            utilization: utilization.map(Percent),
            slice: slice.map(|(profile, index)| (profile.to_owned(), index)),
            ..Reading::default()
        };
        let devices = [
            reading(Some(90.0), None),
            reading(None, None),
            reading(Some(30.0), Some(("1g.10gb", 0))),
        ];
        let held = HeldUse::from_readings(devices.iter());
        let expected = HeldUse {
            utilization: Some(Percent(60.0)),
            sampled: 1,
            slices_sampled: 1,
        };
        assert_eq!(held, expected);
        assert_eq!(
            held.basis(Some(2)),
            "mean of 1 of 2 held and 1 slice, 1 unknown"
        );
        let slices = HeldUse::from_readings(devices[2..].iter());
        assert_eq!(slices.basis(Some(0)), "mean of 1 slice held");
        let whole = HeldUse::from_readings(devices[..1].iter());
        assert_eq!(
            (whole.basis(Some(1)), whole.basis(None)),
            ("mean of 1 held".to_owned(), "mean of 1 held".to_owned())
        );
        assert_eq!(HeldUse::from_readings([].iter()).utilization, None);
    }

    #[test]
    fn numbers_are_rounded_in_one_way() {
        let percent_of = |value| percent(Some(Percent(value)));
        assert_eq!(
            (
                rounded(43.099_999_99),
                rate(Percent(43.099_999_99)),
                rate(Percent(100.0))
            ),
            (43.1, 0.431, 1.0)
        );
        assert_eq!(
            memory(Some(Mebibytes(69_632.0)), Some(Mebibytes(81_559.0))).as_deref(),
            Some("68Gi/79.6Gi")
        );
        assert_eq!(memory(Some(Mebibytes(69_632.0)), None), None);
        assert_eq!(
            (percent_of(86.6).as_str(), percent(None).as_str()),
            ("87%", "-")
        );
    }
}
