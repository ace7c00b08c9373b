//! Renders `get metrics workload`: the four graphs defined by the workloads document, and charts as
//! text.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{Percent, Point};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::history::curves::{History, Trace};
use gpuctl_core::stats::logs::training::{Measure, TrainingCurves};

use super::metrics::{JobCurves, JobMetric, job_text, names};
use crate::TextStyle;
use crate::format::coverage::{rate, rounded};

#[derive(JsonSchema, Serialize)]
struct Graph {
    serial: u8,
    series: Vec<GraphLine>,
    config: ChartConfig,
}

#[derive(JsonSchema, Serialize)]
struct GraphLine {
    name: String,
    /// Pairs of a value and its time in Unix milliseconds.
    points: Vec<(f64, i64)>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChartConfig {
    y_axis_unit: &'static str,
}

/// Builds the graphs of the workloads document. As defined there, ratios are from 0 to 1 although
/// the axis is labeled `%`.
pub fn workload(history: &History, curves: &TrainingCurves) -> Graphs {
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
    let percentages = |points: &[Point]| {
        points
            .iter()
            .map(|point| (rate(Percent(point.value)), point.at))
            .collect::<Vec<_>>()
    };
    let values = |points: &[Point]| {
        points
            .iter()
            .map(|point| (rounded(point.value), point.at))
            .collect::<Vec<_>>()
    };
    let tflops = curves.get(&Measure::Tflops).map(|points| GraphLine {
        name: "TFLOPS".to_owned(),
        points: values(points),
    });
    Graphs {
        utilization: graph(1, "%", &|trace| {
            percentages(trace.curve(Quantity::Utilization))
        }),
        memory: graph(2, "%", &|trace| percentages(&trace.memory_share())),
        power: graph(3, "W", &|trace| values(trace.curve(Quantity::Power))),
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

/// Draws charts of utilization and memory, and the utilization of each device.
pub fn workload_text(history: &History, from: i64, to: i64, style: TextStyle) -> String {
    let curves = JobCurves {
        history,
        throughput: Vec::new(),
        throughput_unit: None,
        from,
        to,
    };
    let metrics = [JobMetric::GpuUtilization, JobMetric::MemoryUsage];
    job_text(&curves, &metrics, false, style) + &job_text(&curves, &metrics[..1], true, style)
}
