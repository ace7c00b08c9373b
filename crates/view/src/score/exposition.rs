//! Renders scores in the Prometheus text format, with the metric names of the utilization monitor.
//! Unknown values produce no sample.
//!
//! The status of a score has its own family with a series per status, as OpenMetrics describes for
//! state sets. As a label of the score, each change would end one series and begin another, and
//! reset the `for` of alerts.

use std::collections::VecDeque;

use gpuctl_core::model::values::units::UnitValue;
use gpuctl_core::stats::score::selection::Scored;
use gpuctl_core::stats::score::value::Band;

use super::summary::ScoreStats;

/// Counters and durations of the analyses so far.
#[derive(Clone, Debug, Default)]
pub struct Analyses {
    pub total: u64,
    pub errors: u64,
    /// Durations of the most recent successful analyses, in seconds.
    recent: VecDeque<f64>,
    sum: f64,
    count: u64,
}

/// Maximum number of durations for computing quantiles.
const RECENT: usize = 1000;
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

impl Analyses {
    pub fn succeeded(&mut self, seconds: f64) {
        self.total += 1;
        self.count += 1;
        self.sum += seconds;
        self.recent.push_back(seconds);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    pub fn failed(&mut self) {
        self.total += 1;
        self.errors += 1;
    }

    /// Returns a quantile: the smallest duration that is not exceeded by this fraction of the
    /// durations. Returns `None` without durations.
    fn quantile(&self, quantile: f64) -> Option<f64> {
        let mut sorted: Vec<f64> = self.recent.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place among a thousand"
        )]
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied()
    }
}

/// Metrics in the Prometheus text format.
struct MetricsText<'a> {
    text: String,
    /// The value of the label `cluster` of every series.
    cluster: Option<&'a str>,
}

impl MetricsText<'_> {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.text
            .push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let cluster = self.cluster.map(|cluster| ("cluster", cluster));
        let labels: Vec<String> = labels
            .iter()
            .chain(&cluster)
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        self.text.push_str(&format!("{name}{labels} {value}\n"));
    }

    /// Writes a metric family with at most one sample.
    fn gauge(&mut self, name: &str, help: &str, value: Option<f64>) {
        self.family(name, "gauge", help);
        // Omit unknown values: Prometheus marks a series as stale once a scrape lacks it.
        if let Some(value) = value {
            self.sample(name, &[], value);
        }
    }
}

/// Escapes a label value for the text format.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// The family with the status of a score.
const STATUS: &str = "gpu_utilization_status";

/// A metric family with one sample per device: name, help text, and value.
type Family = (&'static str, &'static str, fn(&Scored) -> Option<f64>);

const OF_DEVICES: [Family; 8] = [
    (
        "gpu_utilization_score",
        "Utilization score of a GPU, 0 to 100",
        |row| row.score.value.filter(|_| row.score.band != Band::Unknown),
    ),
    (
        "gpu_core_utilization",
        "GPU utilization in percent",
        |row| row.score.utilization.map(UnitValue::value),
    ),
    ("gpu_memory_used_mb", "GPU memory used in MB", |row| {
        row.score.memory_used.map(UnitValue::value)
    }),
    ("gpu_power_usage_watts", "Power drawn in watts", |row| {
        row.score.power.map(UnitValue::value)
    }),
    (
        "gpu_memory_copy_utilization",
        "Memory copy utilization in percent",
        |row| row.score.memory_copy.map(UnitValue::value),
    ),
    ("gpu_sm_clock_mhz", "SM clock in MHz", |row| {
        row.score.clock_mhz
    }),
    (
        "gpu_ai_analysis_confidence",
        "AI confidence in its verdict, 0 to 1",
        |row| Some(row.opinion.as_ref()?.confidence),
    ),
    (
        "gpu_ai_adjusted_score",
        "Score suggested by the AI, 0 to 100",
        |row| row.opinion.as_ref()?.adjusted_score,
    ),
];

/// Writes a sample about a device. `status` is an additional label.
fn device(text: &mut MetricsText, name: &str, row: &Scored, value: f64, status: Option<&str>) {
    let Some(id) = row.id() else { return };
    let (namespace, pod) = row.holder();
    let slice = row
        .reading
        .slice
        .as_ref()
        .map(|(profile, number)| format!("{profile}-{number}"));
    // Use the label names of the utilization monitor.
    let mut labels = vec![("gpu_id", id.as_str())];
    let holder = [
        ("pod", pod.unwrap_or_default()),
        ("namespace", namespace.unwrap_or_default()),
    ];
    match (name, &row.opinion) {
        ("gpu_ai_analysis_confidence", Some(opinion)) => {
            labels.push(("ai_status", opinion.verdict.word()));
        }
        _ => labels.extend(holder),
    }
    labels.push(("node", row.reading.node.as_str()));
    // MIG instances share the UUID of their device.
    labels.extend(slice.as_deref().map(|slice| ("slice", slice)));
    labels.extend(status.map(|status| ("status", status)));
    text.sample(name, &labels, value);
}

/// Renders all metric families. Without `scored`, the families that describe devices have no
/// samples. With `cluster`, every series has this label.
pub fn text(
    scored: Option<(&[Scored], &ScoreStats)>,
    analyses: &Analyses,
    cluster: Option<&str>,
) -> String {
    let mut text = MetricsText {
        text: String::new(),
        cluster,
    };
    let rows = scored.map_or(&[][..], |(rows, _)| rows);
    for (name, help, value) in OF_DEVICES {
        text.family(name, "gauge", help);
        for row in rows {
            if let Some(value) = value(row) {
                device(&mut text, name, row, value, None);
            }
        }
    }
    text.family(
        STATUS,
        "gauge",
        "1 for the status of a GPU's score, 0 for the others",
    );
    for row in rows {
        for band in Band::ALL {
            let is_current = f64::from(u8::from(row.score.band == *band));
            device(&mut text, STATUS, row, is_current, Some(band.word()));
        }
    }
    let stats = scored.map(|(_, stats)| stats);
    write_totals(&mut text, stats);
    write_namespaces(&mut text, stats);
    write_analyses(&mut text, analyses);
    text.text
}

/// Writes the counts and means over all devices.
fn write_totals(text: &mut MetricsText, stats: Option<&ScoreStats>) {
    let number = |count: fn(&ScoreStats) -> usize| stats.map(|stats| count(stats) as f64);
    text.gauge(
        "gpu_total_count",
        "GPUs held by pods",
        number(|stats| stats.total_gpus),
    );
    text.gauge(
        "gpu_low_utilization_count",
        "GPUs below the threshold, including idle ones",
        number(|stats| stats.low_utilization_count),
    );
    text.gauge(
        "gpu_idle_count",
        "Idle GPUs",
        number(|stats| stats.idle_count),
    );
    text.gauge(
        "gpu_average_score",
        "Mean score of the GPUs with a known score",
        stats.and_then(|stats| stats.avg_score),
    );
    text.family("gpu_status_count", "gauge", "GPUs by status");
    for (status, number) in stats.iter().flat_map(|stats| &stats.by_status) {
        text.sample("gpu_status_count", &[("status", status)], *number as f64);
    }
}

/// Writes the counts and means of each namespace.
fn write_namespaces(text: &mut MetricsText, stats: Option<&ScoreStats>) {
    let namespaces = || stats.into_iter().flat_map(|stats| &stats.by_namespace);
    text.family("gpu_namespace_count", "gauge", "GPUs by namespace");
    for (namespace, sums) in namespaces() {
        text.sample(
            "gpu_namespace_count",
            &[("namespace", namespace)],
            sums.count as f64,
        );
    }
    text.family(
        "gpu_namespace_average_score",
        "gauge",
        "Mean score by namespace",
    );
    for (namespace, sums) in namespaces() {
        if let Some(mean) = sums.avg_score {
            text.sample(
                "gpu_namespace_average_score",
                &[("namespace", namespace)],
                mean,
            );
        }
    }
}

/// Writes the number and durations of analyses.
fn write_analyses(text: &mut MetricsText, analyses: &Analyses) {
    text.family("gpu_analysis_total", "counter", "Analyses so far");
    text.sample("gpu_analysis_total", &[], analyses.total as f64);
    text.family(
        "gpu_analysis_errors_total",
        "counter",
        "Analyses that failed",
    );
    text.sample("gpu_analysis_errors_total", &[], analyses.errors as f64);
    let name = "gpu_analysis_duration_seconds";
    text.family(name, "summary", "Duration of an analysis");
    for quantile in QUANTILES {
        if let Some(seconds) = analyses.quantile(quantile) {
            text.sample(name, &[("quantile", &quantile.to_string())], seconds);
        }
    }
    text.sample(&format!("{name}_sum"), &[], analyses.sum);
    text.sample(&format!("{name}_count"), &[], analyses.count as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_cover_measured_values_only() {
        let mut analyses = Analyses::default();
        assert_eq!(analyses.quantile(0.5), None);
        for seconds in [5.0, 1.0, 4.0, 2.0, 3.0] {
            analyses.succeeded(seconds);
        }
        analyses.failed();
        assert_eq!(
            [0.5, 0.9, 0.99].map(|part| analyses.quantile(part)),
            [Some(3.0), Some(5.0), Some(5.0)]
        );
        let text = text(None, &analyses, None);
        assert!(
            text.contains("gpu_analysis_total 6\n")
                && text.contains("gpu_analysis_errors_total 1\n"),
            "{text}"
        );
        assert!(
            text.contains("gpu_analysis_duration_seconds{quantile=\"0.5\"} 3\n"),
            "{text}"
        );
        assert!(
            text.contains("_seconds_sum 15\n") && text.contains("_seconds_count 5\n"),
            "{text}"
        );
        assert!(
            !text.contains("\ngpu_total_count"),
            "unknown values have no sample: {text}"
        );
    }
}
