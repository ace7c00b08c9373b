//! `score -o prometheus`: scores in Prometheus' text format, under the names of the utilization monitor. What is unknown has
//! no sample, for there is no number that says so.

use std::time::Duration;

use crate::stats::score::Band;

use super::score::{Row, Stats};

/// What analyses came to so far.
#[derive(Clone, Copy, Debug)]
pub struct Analyses {
    pub total: u64,
    pub errors: u64,
    /// Of the newest one.
    pub took: Duration,
}

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.0.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.0.push_str(&format!("{name}{labels} {value}\n"));
    }

    /// A family of one sample.
    fn gauge(&mut self, name: &str, help: &str, value: Option<f64>) {
        self.family(name, "gauge", help);
        if let Some(value) = value {
            self.sample(name, &[], value);
        }
    }
}

/// A label's value as the format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A family of one sample per device: name, help, value.
type Family = (&'static str, &'static str, fn(&Row<'_>) -> Option<f64>);

/// All families.
#[must_use]
pub fn text(rows: &[Row<'_>], stats: &Stats, analyses: Analyses) -> String {
    let mut text = Text(String::new());
    let each: [Family; 6] = [
        ("gpu_utilization_score", "Utilization score of a GPU, 0 to 100", |row| {
            row.score.value.filter(|_| row.score.band != Band::Unknown)
        }),
        ("gpu_core_utilization", "GPU utilization in percent", |row| row.score.utilization),
        ("gpu_memory_used_mb", "GPU memory used in MB", |row| row.score.memory_used_mib),
        ("gpu_power_usage_watts", "Power drawn in watts", |row| row.score.power_watts),
        ("gpu_memory_copy_utilization", "Memory copy utilization in percent", |row| row.score.memory_copy),
        ("gpu_sm_clock_mhz", "Clock of the multiprocessors in MHz", |row| row.score.clock_mhz),
    ];
    for (name, help, value) in each {
        text.family(name, "gauge", help);
        for row in rows {
            let Some(value) = value(row) else { continue };
            let id = row.id();
            let (namespace, pod) = row.holder();
            let mut labels =
                vec![("gpu_id", id.as_str()), ("pod", pod.unwrap_or_default()), ("namespace", namespace.unwrap_or_default())];
            let slice = row.reading.slice.as_ref().map(|(profile, number)| format!("{profile}-{number}"));
            // Instances share the UUID of their device.
            labels.extend(slice.as_deref().map(|slice| ("slice", slice)));
            if name == "gpu_utilization_score" {
                labels.push(("status", row.score.band.word()));
            }
            text.sample(name, &labels, value);
        }
    }
    text.gauge("gpu_total_count", "GPUs that a pod holds", Some(stats.total_gpus as f64));
    text.gauge(
        "gpu_low_utilization_count",
        "GPUs below the threshold, idle ones included",
        Some(stats.low_utilization_count as f64),
    );
    text.gauge("gpu_idle_count", "Idle GPUs", Some(stats.idle_count as f64));
    text.gauge("gpu_average_score", "Mean score of the GPUs with a known one", stats.avg_score);
    text.family("gpu_status_count", "gauge", "GPUs by status");
    for (status, number) in &stats.by_status {
        text.sample("gpu_status_count", &[("status", status)], *number as f64);
    }
    text.family("gpu_namespace_count", "gauge", "GPUs by namespace");
    for (namespace, of) in &stats.by_namespace {
        text.sample("gpu_namespace_count", &[("namespace", namespace)], of.count as f64);
    }
    text.family("gpu_namespace_average_score", "gauge", "Mean score by namespace");
    for (namespace, of) in &stats.by_namespace {
        if let Some(mean) = of.avg_score {
            text.sample("gpu_namespace_average_score", &[("namespace", namespace)], mean);
        }
    }
    let Analyses { total, errors, took } = analyses;
    text.family("gpu_analysis_total", "counter", "Analyses so far");
    text.sample("gpu_analysis_total", &[], total as f64);
    text.family("gpu_analysis_errors_total", "counter", "Analyses that failed");
    text.sample("gpu_analysis_errors_total", &[], errors as f64);
    text.family("gpu_analysis_duration_seconds", "summary", "Time of an analysis");
    text.sample("gpu_analysis_duration_seconds", &[("quantile", "0.5")], took.as_secs_f64());
    text.sample("gpu_analysis_duration_seconds_sum", &[], took.as_secs_f64());
    text.sample("gpu_analysis_duration_seconds_count", &[], (total - errors) as f64);
    text.0
}
