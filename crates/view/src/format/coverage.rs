//! Rounds measured values alike in JSON and tables, and counts the samples behind them.

use schemars::JsonSchema;
use serde::Serialize;

use super::table::Cell;
use crate::TextStyle;

use gpuctl_core::model::counting::held_use::held_figures;
use gpuctl_core::model::values::text::count;
pub use gpuctl_core::model::values::units::rounded;
use gpuctl_core::model::values::units::without_negative_zero;
use gpuctl_core::model::{
    Figures, HeldUse, Mebibytes, NodeUsage, Percent, Reading, Readings, Watts,
};

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

impl Coverage {
    /// Adds up the coverage of several clusters. Returns `None` if none of them has metrics.
    pub fn sum(clusters: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        let add = |a: Self, b: Self| Self {
            gpus: a.gpus + b.gpus,
            gpus_sampled: a.gpus_sampled + b.gpus_sampled,
            gpus_stale: a.gpus_stale + b.gpus_stale,
            samples: a.samples + b.samples,
            samples_dropped: a.samples_dropped + b.samples_dropped,
        };
        clusters.into_iter().flatten().reduce(add)
    }
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

/// Formats which devices the mean utilization covers, as in `mean of 25 of 27 held, 2 unknown;
/// slices 58% (4 measured)`.
pub(crate) fn basis(held_use: &HeldUse) -> String {
    let (sampled, parts) = (held_use.whole.sampled, held_use.parts);
    if held_use.is_of_parts() {
        return format!("mean of {} held", count(parts.sampled, "slice"));
    }
    let mut text = match (held_use.held, held_use.unmeasured()) {
        (Some(held), Some(unknown @ 1..)) => {
            format!("mean of {sampled} of {held} held, {unknown} unknown")
        }
        _ => format!("mean of {sampled} held"),
    };
    if parts.sampled > 0 {
        let (mean, sampled) = (percent(parts.utilization), parts.sampled);
        text.push_str(&format!("; slices {mean} ({sampled} measured)"));
    }
    text
}

/// Creates the cell of a mean utilization. On a terminal, `*` marks a mean that includes the use of
/// other pods on shared devices.
pub(crate) fn utilization_cell(figures: Option<Figures>, style: TextStyle) -> Cell {
    let value = figures.and_then(|figures| figures.utilization);
    let is_marked = style.width.is_some() && figures.is_some_and(|figures| figures.shared > 0);
    let mark = if is_marked { "*" } else { "" };
    Cell::measured(
        format!("{}{mark}", percent(value)),
        value.map(|value| format!("{value:.0}")),
    )
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
        text.push_str(&format!(", of {} of {held} held GPUs", figures.sampled));
    }
    if let Some(memory) = memory_of(figures) {
        let per_gpu = if figures.devices > 1 { " per GPU" } else { "" };
        text.push_str(&format!("; memory {memory}{per_gpu}"));
    }
    if let Some(Watts(watts)) = figures.power_in_all {
        let in_total = if figures.devices > 1 { " in total" } else { "" };
        text.push_str(&format!("; {watts:.0} W{in_total}"));
    }
    if figures.shared > 0 {
        text.push_str(&format!(
            "; includes other pods on {}",
            count(figures.shared, "shared GPU")
        ));
    }
    Some(text)
}

/// Formats the use of the held GPUs of nodes like `usage`, and counts the devices that may be held
/// by pods that the exporter does not name.
pub(crate) fn usage_of_nodes<'n>(
    hosts: impl Iterator<Item = &'n NodeUsage> + Clone,
) -> Option<String> {
    let held = HeldUse::from_hosts(hosts.clone()).held.unwrap_or(0);
    let text = usage(&held_figures(hosts.clone()), held)?;
    let readings = hosts.flat_map(|host| host.devices.iter().flatten());
    let unclear = readings.filter(|reading| reading.held.is_none()).count();
    Some(match unclear {
        0 => text,
        1 => format!("{text}; 1 more may be held"),
        _ => format!("{text}; {unclear} more may be held"),
    })
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
    use gpuctl_core::model::counting::held_use::HeldMean;

    #[test]
    fn a_mean_states_the_devices_that_it_covers() {
        let mean = |utilization: Option<f64>, sampled| HeldMean {
            utilization: utilization.map(Percent),
            sampled,
        };
        let of = |held, whole, parts| basis(&HeldUse { held, whole, parts });
        let none = HeldMean::default();
        assert_eq!(
            of(Some(980), mean(Some(71.0), 964), mean(Some(31.0), 4)),
            "mean of 964 of 980 held, 16 unknown; slices 31% (4 measured)"
        );
        assert_eq!(of(Some(2), mean(Some(90.0), 2), none), "mean of 2 held");
        assert_eq!(of(None, mean(Some(90.0), 2), none), "mean of 2 held");
        assert_eq!(
            of(Some(0), none, mean(Some(30.0), 1)),
            "mean of 1 slice held"
        );
        assert_eq!(
            of(Some(8), none, mean(Some(30.0), 1)),
            "mean of 0 of 8 held, 8 unknown; slices 30% (1 measured)"
        );
    }

    #[test]
    fn coverage_of_several_clusters_is_a_sum() {
        let cluster = |gpus, gpus_sampled| Coverage {
            gpus,
            gpus_sampled,
            ..Coverage::default()
        };
        let sum = |clusters: &[Option<Coverage>]| {
            Coverage::sum(clusters.iter().copied()).map(|sum| (sum.gpus, sum.gpus_sampled))
        };
        // The second cluster has no metrics, so the sums are 8 + 4 devices and 6 + 4 samples.
        let clusters = [Some(cluster(8, 6)), None, Some(cluster(4, 4))];
        assert_eq!(sum(&clusters), Some((12, 10)));
        assert_eq!(sum(&[None, None]), None);
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
