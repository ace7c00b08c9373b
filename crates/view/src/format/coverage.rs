//! Rounds measured values in the same way for JSON and for cells, and counts the samples that they
//! are based on.

use schemars::JsonSchema;
use serde::Serialize;

pub use gpuctl_core::model::values::units::rounded;
use gpuctl_core::model::{Figures, Mebibytes, Percent, Reading, Readings, Watts};

/// Rounds a fraction to four decimals.
pub(crate) fn fine(fraction: f64) -> f64 {
    (fraction * 10_000.0).round() / 10_000.0
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

/// Converts percent to a rate from 0 to 1, rounded to four decimals.
pub fn rate(percent: Percent) -> f64 {
    (percent.0 * 100.0).round() / 10_000.0
}

/// Formats a percentage as `87%`, or as `-` when it is unknown.
pub fn percent(value: Option<Percent>) -> String {
    value.map_or_else(|| "-".to_owned(), |Percent(value)| format!("{value:.0}%"))
}

/// Formats used and total memory, rounded to tenths, as in `68Gi/80Gi`. `None` when one of the two
/// is unknown.
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

/// Formats the use of GPUs as
/// `87% mean, 34% lowest, of 15 of 16 GPUs; memory 68Gi/80Gi per GPU; 4992 W in total`.
///
/// `held` is the number of held GPUs, which can be higher than the number that exporters report.
/// `None` when nothing was sampled.
pub(crate) fn usage(figures: &Figures, held: u64) -> Option<String> {
    let mut text = format!("{} mean", percent(Some(figures.utilization?)));
    // With one sampled device, the lowest value is the mean.
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

/// Formats a number with at most one decimal, such as `68` or `79.7`.
fn tenths(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0")
        .map_or(text.clone(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

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
