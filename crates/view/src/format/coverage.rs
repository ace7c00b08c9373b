//! Rounds measured numbers in one way for JSON and cells, with the number of samples they rest on.

use schemars::JsonSchema;
use serde::Serialize;

pub use gpuctl_core::model::values::units::rounded;
use gpuctl_core::model::{Figures, Mebibytes, Percent, Reading, Readings, Watts};

/// Returns a fraction of one with four decimals.
pub(crate) fn fine(fraction: f64) -> f64 {
    (fraction * 10_000.0).round() / 10_000.0
}

/// What measured numbers rest on.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// Devices that the exporters know.
    pub gpus: u64,
    /// Those of them with a fresh sample.
    pub gpus_sampled: u64,
    /// Those whose newest sample is older than two scrapes.
    pub gpus_stale: u64,
    /// Samples that were used: more where more is shown, and of what is well none.
    pub samples: u64,
    /// Samples that no device can have.
    pub samples_dropped: u64,
}

impl From<&Readings> for Coverage {
    fn from(readings: &Readings) -> Self {
        let count = |wanted: fn(&Reading) -> bool| {
            readings
                .devices
                .iter()
                .filter(|reading| wanted(reading))
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

/// Turns percent into a rate of 0 to 1, to four decimals.
pub fn rate(percent: Percent) -> f64 {
    (percent.0 * 100.0).round() / 10_000.0
}

/// Formats as `87%`, or `-`.
pub fn percent(value: Option<Percent>) -> String {
    value.map_or_else(|| "-".to_owned(), |Percent(value)| format!("{value:.0}%"))
}

/// `68Gi/80Gi`: used of what there is, to a tenth; `None` where one of the two is not known.
pub fn memory(used: Option<Mebibytes>, total: Option<Mebibytes>) -> Option<String> {
    let (used, total) = used.zip(total)?;
    Some(format!(
        "{}Gi/{}Gi",
        tenths(used.gibibytes()),
        tenths(total.gibibytes())
    ))
}

/// Formats the mean memory per device of several.
pub fn memory_of(figures: &Figures) -> Option<String> {
    memory(figures.memory_used, figures.memory_total)
}

/// `87% mean, 34% lowest, of 15 of 16 GPUs; memory 68Gi/80Gi per GPU; 4992 W in all`: of those that
/// are held, whoever names them. `None` where nothing was sampled.
pub(crate) fn use_of(figures: &Figures, held: u64) -> Option<String> {
    let mut text = format!("{} mean", percent(Some(figures.utilization?)));
    if let Some(lowest) = figures.lowest.filter(|_| figures.sampled > 1) {
        text.push_str(&format!(", {} lowest", percent(Some(lowest))));
    }
    let held = held.max(figures.devices);
    if held > 1 {
        text.push_str(&format!(", of {} of {held} GPUs", figures.sampled));
    }
    if let Some(memory) = memory_of(figures) {
        let each = if figures.devices > 1 { " per GPU" } else { "" };
        text.push_str(&format!("; memory {memory}{each}"));
    }
    if let Some(Watts(watts)) = figures.power_in_all {
        let all = if figures.devices > 1 { " in all" } else { "" };
        text.push_str(&format!("; {watts:.0} W{all}"));
    }
    Some(text)
}

/// Formats as `68`, `79.7`.
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
