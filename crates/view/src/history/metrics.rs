//! Renders `get metrics`: curves as each document defines them, and charts for people.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{Percent, Point};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::history::curves as history;
use gpuctl_core::stats::history::curves::{History, Trace};
use gpuctl_core::stats::logs::training::Measure;

use crate::TextStyle;
use crate::format::chart::{ChartFrame, chart, round_top, spark};
use crate::format::coverage::{percent, rate, rounded};
use crate::format::text::clean;

/// What the PRD calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobMetric {
    GpuUtilization,
    MemoryUsage,
    Throughput,
}

impl JobMetric {
    const ALL: [Self; 3] = [Self::GpuUtilization, Self::MemoryUsage, Self::Throughput];
}

/// The curves of a job: percent, GiB per device, and what its log says of its speed.
pub struct JobCurves<'a> {
    pub history: &'a History,
    pub throughput: Vec<Point>,
    /// `tokens/sec`, `samples/sec`.
    pub throughput_unit: Option<&'static str>,
    /// Unix milliseconds.
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
    let one = |point: &Point| {
        Some(TimedValue {
            timestamp: Timestamp::from_millisecond(point.at).ok()?,
            value: rounded(point.value),
        })
    };
    points.iter().filter_map(one).collect()
}

/// The answer of `get metrics job`; with `--metric`, only what was named.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobMetrics {
    /// Percent, 0 to 100: the mean of its devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_utilization: Option<Vec<TimedValue>>,
    /// GiB per device.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_usage: Option<Vec<TimedValue>>,
    /// What its log says, in `throughputUnit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput: Option<Vec<TimedValue>>,
    /// `tokens/sec`, `samples/sec`; null where its log says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput_unit: Option<Option<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<Rests>,
}

/// Returns the contract's series; with `only`, those that were named.
pub fn job(curves: &JobCurves<'_>, only: &[JobMetric]) -> JobMetrics {
    let is_whole = only.is_empty();
    let series =
        |metric| (is_whole || only.contains(&metric)).then(|| timed(&curves.curve(metric)));
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

/// Charts of a job; `each` shows every device by itself.
pub fn job_text(curves: &JobCurves<'_>, only: &[JobMetric], each: bool, look: TextStyle) -> String {
    let width = look.width.map_or(80, |width| width.min(110));
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
        .filter(|metric| only.is_empty() || only.contains(metric))
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
        if each && metric != JobMetric::Throughput {
            text.push_str(&format!("{title}\n"));
            text.push_str(&lines(curves, metric, frame(top), look));
        } else {
            let mean = points.iter().map(|point| point.value).sum::<f64>() / points.len() as f64;
            let of = match metric {
                JobMetric::Throughput => String::new(),
                _ => format!(" of {} GPUs", curves.history.traces.len()),
            };
            let note = format!("{title}, mean {mean:.0}{of}");
            text.push_str(&chart(&points, frame(top), &note, look));
        }
    }
    text
}

/// Returns a line of blocks per device.
fn lines(curves: &JobCurves<'_>, metric: JobMetric, frame: ChartFrame, look: TextStyle) -> String {
    let quantity = if metric == JobMetric::GpuUtilization {
        Quantity::Utilization
    } else {
        Quantity::MemoryUsed
    };
    let names = names(curves.history);
    let widest = names.iter().map(String::len).max().unwrap_or(0);
    let room = frame.width.saturating_sub(widest + 9).max(10);
    let mut text = String::new();
    for (trace, name) in curves.history.traces.iter().zip(&names) {
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
                width: room,
                ..frame
            },
            look,
        );
        text.push_str(&format!(
            "  {name:<widest$} {number:>4} {}\n",
            drawn.trim_end()
        ));
    }
    text
}

/// Names of devices, with the node where there are several.
fn names(history: &History) -> Vec<String> {
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
    // Whoever is scraped may call a node anything.
    history
        .traces
        .iter()
        .map(|trace| clean(&name(trace)).into_owned())
        .collect()
}

/// A curve that a workload told of itself.
pub type TrainingCurves = BTreeMap<Measure, Vec<Point>>;

#[derive(JsonSchema, Serialize)]
struct Graph {
    serial: u8,
    series: Vec<GraphLine>,
    config: ChartConfig,
}

#[derive(JsonSchema, Serialize)]
struct GraphLine {
    name: String,
    /// Value and Unix milliseconds.
    points: Vec<(f64, i64)>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChartConfig {
    y_axis_unit: &'static str,
}

/// Returns the workloads document's graphs: shares are 0 to 1 although their axis says percent, as
/// there.
pub fn workload(history: &History, told: &TrainingCurves) -> Graphs {
    let names = names(history);
    let graph = |serial, unit, points: &dyn Fn(&Trace) -> Vec<(f64, i64)>| {
        let series = history
            .traces
            .iter()
            .zip(&names)
            .map(|(trace, name)| GraphLine {
                name: name.clone(),
                points: points(trace),
            });
        let series = series.filter(|line| !line.points.is_empty()).collect();
        Graph {
            serial,
            series,
            config: ChartConfig { y_axis_unit: unit },
        }
    };
    let shares = |points: &[Point]| {
        points
            .iter()
            .map(|point| (rate(Percent(point.value)), point.at))
            .collect::<Vec<_>>()
    };
    let plain = |points: &[Point]| {
        points
            .iter()
            .map(|point| (rounded(point.value), point.at))
            .collect::<Vec<_>>()
    };
    let tflops = told.get(&Measure::Tflops).map(|points| GraphLine {
        name: "TFLOPS".to_owned(),
        points: plain(points),
    });
    Graphs {
        utilization: graph(1, "%", &|trace| shares(trace.curve(Quantity::Utilization))),
        memory: graph(2, "%", &|trace| shares(&trace.memory_share())),
        power: graph(3, "W", &|trace| plain(trace.curve(Quantity::Power))),
        training: Graph {
            serial: 4,
            series: tflops.into_iter().collect(),
            config: ChartConfig {
                y_axis_unit: "TFLOPS",
            },
        },
    }
}

/// The four graphs, always in this order.
#[derive(JsonSchema, Serialize)]
pub struct Graphs {
    #[serde(rename = "GPU Utilization")]
    utilization: Graph,
    #[serde(rename = "GPU Memory Utilization")]
    memory: Graph,
    #[serde(rename = "GPU Power")]
    power: Graph,
    #[serde(rename = "TrainingPerformance")]
    training: Graph,
}

/// Returns the same for people: utilization as a chart, each device below.
pub fn workload_text(history: &History, from: i64, to: i64, look: TextStyle) -> String {
    let curves = JobCurves {
        history,
        throughput: Vec::new(),
        throughput_unit: None,
        from,
        to,
    };
    let shown = [JobMetric::GpuUtilization, JobMetric::MemoryUsage];
    job_text(&curves, &shown, false, look) + &job_text(&curves, &shown[..1], true, look)
}

/// One value of training performance.
#[derive(JsonSchema, Serialize)]
pub struct Performance {
    metric: &'static str,
    value: f64,
    /// Unix milliseconds.
    timestamp: i64,
}

/// Groups by metric, each in order of time.
pub fn performance(told: &TrainingCurves) -> Vec<Performance> {
    let of = |measure: Measure| {
        let points = told.get(&measure).into_iter().flatten();
        points.map(move |point| Performance {
            metric: measure.name(),
            value: point.value,
            timestamp: point.at,
        })
    };
    Measure::ALL.into_iter().flat_map(of).collect()
}

/// Returns a line per metric for people: the newest value, its beginning, a curve.
pub fn performance_text(told: &TrainingCurves, from: i64, to: i64, look: TextStyle) -> String {
    let mut text = String::new();
    for measure in Measure::ALL {
        let Some((points, last)) = told
            .get(&measure)
            .and_then(|points| Some((points, points.last()?)))
        else {
            continue;
        };
        let lowest = points
            .iter()
            .map(|point| point.value)
            .fold(f64::INFINITY, f64::min);
        let highest = points
            .iter()
            .map(|point| point.value)
            .fold(f64::NEG_INFINITY, f64::max);
        let width = look
            .width
            .map_or(40, |width| width.saturating_sub(50).clamp(10, 60));
        // From the lowest to the highest: how it changes is what people look for.
        let raised: Vec<Point> = points
            .iter()
            .map(|point| Point {
                at: point.at,
                value: point.value - lowest,
            })
            .collect();
        let frame = ChartFrame {
            from,
            to,
            top: (highest - lowest).max(f64::MIN_POSITIVE),
            height: 2,
            width,
        };
        let curve = spark(&raised, frame, look);
        text.push_str(&format!(
            "{:<20} {:>12}  {}\n",
            measure.name(),
            figure(last.value),
            curve.trim_end()
        ));
    }
    text
}

/// A learning rate needs its exponent, a throughput does not.
fn figure(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.01 {
        format!("{value:.2e}")
    } else {
        format!("{}", rounded(value))
    }
}
