//! Renders `get metrics job`: the curves of a job as JSON or as charts.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{Percent, Point};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::history::curves as history;
use gpuctl_core::stats::history::curves::{History, Trace};

use crate::TextStyle;
use crate::format::chart::{ChartFrame, chart, round_top, spark};
use crate::format::coverage::{percent, rounded};
use crate::format::text::{clean, count};

/// The metrics of a job, named as in the PRD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobMetric {
    GpuUtilization,
    MemoryUsage,
    Throughput,
}

impl JobMetric {
    const ALL: [Self; 3] = [Self::GpuUtilization, Self::MemoryUsage, Self::Throughput];
}

/// The curves of a job: utilization in percent, memory in GiB per device, and the throughput in its
/// log.
pub struct JobCurves<'a> {
    pub history: &'a History,
    pub throughput: Vec<Point>,
    /// `tokens/sec` or `samples/sec`.
    pub throughput_unit: Option<&'static str>,
    /// Start of the curves in Unix milliseconds.
    pub from: i64,
    pub to: i64,
}

#[derive(JsonSchema, Serialize)]
struct TimedValue {
    timestamp: Timestamp,
    value: f64,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rests {
    gpus: usize,
    samples: u64,
    samples_dropped: u64,
}

impl JobCurves<'_> {
    fn curve(&self, metric: JobMetric) -> Vec<Point> {
        let mean = |quantity| {
            history::mean(
                self.history
                    .traces
                    .iter()
                    .map(|trace| trace.curve(quantity)),
            )
        };
        match metric {
            JobMetric::GpuUtilization => mean(Quantity::Utilization),
            JobMetric::MemoryUsage => {
                let gib = |point: Point| Point {
                    value: point.value / 1024.0,
                    ..point
                };
                mean(Quantity::MemoryUsed).into_iter().map(gib).collect()
            }
            JobMetric::Throughput => self.throughput.clone(),
        }
    }
}

fn timed(points: &[Point]) -> Vec<TimedValue> {
    let timed_value = |point: &Point| {
        Some(TimedValue {
            timestamp: Timestamp::from_millisecond(point.at).ok()?,
            value: rounded(point.value),
        })
    };
    points.iter().filter_map(timed_value).collect()
}

/// The JSON output of `get metrics job`; with `--metric`, only the requested metrics.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobMetrics {
    /// Mean utilization of its devices in percent, from 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_utilization: Option<Vec<TimedValue>>,
    /// In GiB per device.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_usage: Option<Vec<TimedValue>>,
    /// Throughput that its log reports, in `throughputUnit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput: Option<Vec<TimedValue>>,
    /// `tokens/sec` or `samples/sec`; `null` when the log reports no throughput.
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput_unit: Option<Option<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<Rests>,
}

/// Builds the JSON output with these metrics, or with all of them if `metrics` is empty.
pub fn job(curves: &JobCurves<'_>, metrics: &[JobMetric]) -> JobMetrics {
    let is_whole = metrics.is_empty();
    let series =
        |metric| (is_whole || metrics.contains(&metric)).then(|| timed(&curves.curve(metric)));
    let History {
        traces,
        samples,
        dropped,
    } = curves.history;
    JobMetrics {
        gpu_utilization: series(JobMetric::GpuUtilization),
        memory_usage: series(JobMetric::MemoryUsage),
        throughput: series(JobMetric::Throughput),
        throughput_unit: is_whole.then_some(curves.throughput_unit),
        coverage: is_whole.then_some(Rests {
            gpus: traces.len(),
            samples: *samples,
            samples_dropped: *dropped,
        }),
    }
}

/// Draws the charts of a job. With `per_device`, draws a line for each device instead of the mean.
pub fn job_text(
    curves: &JobCurves<'_>,
    metrics: &[JobMetric],
    per_device: bool,
    style: TextStyle,
) -> String {
    let width = style.width.map_or(80, |width| width.min(110));
    let frame = |top: f64| ChartFrame {
        from: curves.from,
        to: curves.to,
        top,
        height: 5,
        width,
    };
    let mut text = String::new();
    for metric in JobMetric::ALL
        .into_iter()
        .filter(|metric| metrics.is_empty() || metrics.contains(metric))
    {
        let points = curves.curve(metric);
        let highest = points.iter().map(|point| point.value).fold(0.0, f64::max);
        let (title, top) = match metric {
            JobMetric::GpuUtilization => ("GPU utilization, %".to_owned(), 100.0),
            JobMetric::MemoryUsage => ("memory, GiB per GPU".to_owned(), round_top(highest)),
            JobMetric::Throughput => (
                format!("throughput, {}", curves.throughput_unit.unwrap_or("-")),
                round_top(highest),
            ),
        };
        if points.is_empty() {
            text.push_str(&format!("{title}: no samples\n"));
            continue;
        }
        if per_device && metric != JobMetric::Throughput {
            text.push_str(&format!("{title}\n"));
            text.push_str(&lines(curves, metric, frame(top), style));
        } else {
            let mean = points.iter().map(|point| point.value).sum::<f64>() / points.len() as f64;
            let unit = match metric {
                JobMetric::Throughput => String::new(),
                _ => format!(" over {}", count(curves.history.traces.len() as u64, "GPU")),
            };
            let note = format!("{title}, mean {mean:.0}{unit}");
            text.push_str(&chart(&points, frame(top), &note, style));
        }
    }
    text
}

/// Draws a line of block characters for each device.
fn lines(curves: &JobCurves<'_>, metric: JobMetric, frame: ChartFrame, style: TextStyle) -> String {
    let quantity = if metric == JobMetric::GpuUtilization {
        Quantity::Utilization
    } else {
        Quantity::MemoryUsed
    };
    let names = names(curves.history);
    let widest = names.iter().map(String::len).max().unwrap_or(0);
    let curve_width = frame.width.saturating_sub(widest + 9).max(10);
    let mut text = String::new();
    for (trace, name) in curves.history.traces.iter().zip(&names) {
        // Convert mebibytes to gibibytes.
        let scale = if metric == JobMetric::GpuUtilization {
            1.0
        } else {
            1024.0
        };
        let points: Vec<Point> = trace
            .curve(quantity)
            .iter()
            .map(|point| Point {
                at: point.at,
                value: point.value / scale,
            })
            .collect();
        let mean = (!points.is_empty())
            .then(|| points.iter().map(|point| point.value).sum::<f64>() / points.len() as f64);
        let number = match metric {
            JobMetric::GpuUtilization => percent(mean.map(Percent)),
            _ => mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.0}")),
        };
        let drawn = spark(
            &points,
            ChartFrame {
                width: curve_width,
                ..frame
            },
            style,
        );
        text.push_str(&format!(
            "  {name:<widest$} {number:>4} {}\n",
            drawn.trim_end()
        ));
    }
    text
}

/// Returns the names of the devices, with their nodes if there are several nodes.
pub(super) fn names(history: &History) -> Vec<String> {
    let nodes: BTreeSet<&str> = history
        .traces
        .iter()
        .map(|trace| trace.node.as_str())
        .collect();
    let name = |trace: &Trace| {
        if nodes.len() > 1 {
            format!("{}/{}", trace.node, trace.id())
        } else {
            trace.id().to_string()
        }
    };
    // Escape names, because they come from metrics and can contain any character.
    history
        .traces
        .iter()
        .map(|trace| clean(&name(trace)).into_owned())
        .collect()
}
