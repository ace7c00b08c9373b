//! Renders `get heatmap`: the highest values as JSON, or a grid of all devices as text.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::values::units::{UnitValue, highest};
use gpuctl_core::model::{NodeUsage, Reading, Watts};
use gpuctl_core::stats::exporters::limits;

use crate::TextStyle;
use crate::format::coverage::{Coverage, rounded};
use crate::format::text::{clean, paint};

/// The metric of a heat map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeatmapMetric {
    Power,
    Temperature,
    Utilization,
}

impl HeatmapMetric {
    fn value(self, reading: &Reading) -> Option<f64> {
        match self {
            Self::Power => reading.power.map(UnitValue::value),
            Self::Temperature => reading.temperature.map(UnitValue::value),
            Self::Utilization => reading.utilization.map(UnitValue::value),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Power => "W",
            Self::Temperature => "℃",
            Self::Utilization => "%",
        }
    }

    /// Returns the position of the panel in the document.
    fn serial(self) -> u8 {
        match self {
            Self::Utilization => 1,
            Self::Power => 2,
            Self::Temperature => 3,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Power => "GPU power",
            Self::Temperature => "GPU temperature",
            Self::Utilization => "GPU utilization",
        }
    }

    /// Returns the range of the axis. For power, it ends at the highest limit, either measured or
    /// known for the model, or at a round number above a value that exceeds the limit.
    fn axis(self, devices: &[Reading]) -> (i64, i64) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "watts and degrees are small"
        )]
        let rounded_up = |value: f64| value.ceil() as i64;
        match self {
            Self::Utilization => (0, 100),
            Self::Temperature => (20, 110),
            Self::Power => {
                let limit = |reading: &Reading| {
                    reading
                        .power_limit
                        .or_else(|| limits::watts(reading.model.as_deref()?))
                };
                let Watts(measured) =
                    highest(devices.iter().filter_map(|reading| reading.power)).unwrap_or_default();
                let Watts(limits) = highest(devices.iter().filter_map(limit)).unwrap_or_default();
                let highest = if limits >= measured {
                    limits
                } else {
                    (measured / 50.0).ceil() * 50.0
                };
                (0, rounded_up(highest.max(1.0)))
            }
        }
    }
}

/// The JSON output of `get heatmap`: one panel per metric.
#[derive(JsonSchema, Serialize)]
pub struct Heatmap {
    power: HeatmapPanel,
    temperature: HeatmapPanel,
    utilization: HeatmapPanel,
    coverage: Coverage,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct HeatmapPanel {
    serial: u8,
    unit: &'static str,
    y_axis_max: i64,
    y_axis_min: i64,
    data: Vec<Spot>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spot {
    node_name: String,
    device_id: u32,
    value: f64,
    gpu_model: Option<String>,
    /// MIG profile.
    slice: Option<String>,
}

pub fn document(devices: &[Reading], coverage: Coverage, top: usize) -> Heatmap {
    let map = |metric: HeatmapMetric| {
        let mut measured: Vec<(f64, &Reading)> = devices
            .iter()
            .filter_map(|reading| Some((metric.value(reading)?, reading)))
            .collect();
        // The sort is stable, so equal values remain in the order of the devices.
        measured.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (lowest, highest) = metric.axis(devices);
        HeatmapPanel {
            serial: metric.serial(),
            unit: metric.unit(),
            y_axis_max: highest,
            y_axis_min: lowest,
            data: measured
                .into_iter()
                .take(top)
                .map(|(value, reading)| Spot {
                    node_name: reading.node.clone(),
                    device_id: reading.index,
                    value: rounded(value),
                    gpu_model: reading.model.clone(),
                    slice: reading.slice.as_ref().map(|(profile, _)| profile.clone()),
                })
                .collect(),
        }
    };
    Heatmap {
        power: map(HeatmapMetric::Power),
        temperature: map(HeatmapMetric::Temperature),
        utilization: map(HeatmapMetric::Utilization),
        coverage,
    }
}

/// Draws a grid with a row for each node, including nodes without metrics, and a column for each
/// device number.
pub fn grid(
    devices: &[Reading],
    hosts: &[NodeUsage],
    metric: HeatmapMetric,
    style: TextStyle,
) -> String {
    let nodes = readings_by_node(devices, hosts);
    let widest = nodes
        .keys()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(4)
        .max(4);
    let columns = nodes.values().map(Vec::len).max().unwrap_or(0);
    let axis = metric.axis(devices);
    let titles: String = (0..columns).map(|column| format!("{column:>5}")).collect();
    let mut text = format!(
        "{:<widest$}{titles}   {}, {}\n",
        "",
        metric.name(),
        metric.unit()
    );
    for (node, readings) in &nodes {
        let label = clean(node);
        let pad = widest.saturating_sub(label.chars().count());
        text.push_str(&format!("{label}{}", " ".repeat(pad)));
        for reading in readings {
            text.push_str(&cell(*reading, metric, axis, style));
        }
        text.push_str(&missing(readings, metric, style));
        text.push('\n');
    }
    text.push_str(&extremes(devices, metric));
    if metric == HeatmapMetric::Utilization && devices.iter().any(|reading| is_free(Some(reading)))
    {
        text.push_str("· free; red: held and idle\n");
    }
    text
}

/// Arranges readings by node and device number, with `None` for devices without a reading.
fn readings_by_node<'a>(
    devices: &'a [Reading],
    hosts: &'a [NodeUsage],
) -> BTreeMap<&'a str, Vec<Option<&'a Reading>>> {
    let mut nodes: BTreeMap<&str, Vec<Option<&Reading>>> = BTreeMap::new();
    for host in hosts.iter().filter(|host| host.gpus.total > 0) {
        nodes.insert(
            host.name(),
            vec![None; usize::try_from(host.gpus.total).unwrap_or(0).min(WIDEST)],
        );
    }
    for reading in devices {
        let row = nodes.entry(&reading.node).or_default();
        let index = usize::try_from(reading.index).unwrap_or(WIDEST);
        match row.get(index) {
            // Append MIG instances, because they share the number of their device.
            _ if reading.slice.is_some() || index >= WIDEST => row.push(Some(reading)),
            Some(Some(_)) => row.push(Some(reading)),
            Some(None) => row[index] = Some(reading),
            None => {
                row.resize(index, None);
                row.push(Some(reading));
            }
        }
    }
    nodes
}

/// Renders a device in five columns.
fn cell(
    reading: Option<&Reading>,
    metric: HeatmapMetric,
    (lowest, highest): (i64, i64),
    style: TextStyle,
) -> String {
    match reading.and_then(|reading| metric.value(reading)) {
        None => "    -".to_owned(),
        // Show a free device as `·`.
        Some(_) if metric == HeatmapMetric::Utilization && is_free(reading) => "    ·".to_owned(),
        Some(value) => {
            let share = if metric == HeatmapMetric::Utilization {
                // Invert the scale: low utilization is a problem, unlike low power or temperature.
                1.0 - value / 100.0
            } else {
                (value - lowest as f64) / (highest - lowest).max(1) as f64
            };
            format!(" {}", tile(&format!("{value:>4.0}"), share, style))
        }
    }
}

/// Describes how many devices of a node have no value, and why.
fn missing(readings: &[Option<&Reading>], metric: HeatmapMetric, style: TextStyle) -> String {
    let missing_count = readings
        .iter()
        .filter(|reading| reading.is_none_or(|reading| metric.value(reading).is_none()))
        .count();
    if missing_count == 0 {
        return String::new();
    }
    let reason = if readings.iter().flatten().any(|reading| reading.stale) {
        "no fresh samples"
    } else {
        "not measured"
    };
    let note = format!("{missing_count} {reason}");
    format!(
        "   {}",
        paint(&note, Some(colored::Color::BrightBlack), style)
    )
}

/// Describes the device with the highest value, and the held device with the lowest.
fn extremes(devices: &[Reading], metric: HeatmapMetric) -> String {
    let sampled = || {
        devices
            .iter()
            .filter_map(|reading| Some((metric.value(reading)?, reading)))
    };
    let location = |reading: &Reading| format!("{}/{}", clean(&reading.node), reading.index);
    let unit = metric.unit();
    let Some((value, reading)) = sampled().max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return String::new();
    };
    let mut text = format!("hottest: {} {value:.0} {unit}\n", location(reading));
    let coldest = sampled()
        .filter(|(_, reading)| reading.held == Some(true))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((value, reading)) = coldest {
        let holder = reading
            .holders
            .first()
            .map_or(String::new(), |(namespace, pod)| {
                format!(" ({}/{})", clean(namespace), clean(pod))
            });
        text.push_str(&format!(
            "coldest held: {} {value:.0} {unit}{holder}\n",
            location(reading)
        ));
    }
    text
}

fn is_free(reading: Option<&Reading>) -> bool {
    reading.is_some_and(|reading| reading.held == Some(false))
}

/// Maximum number of devices per node that are placed by their number. Higher numbers are appended,
/// so that a wrong number does not allocate a huge row.
const WIDEST: usize = 64;

/// Colors a number by its share of the scale, from blue through green to red.
fn tile(text: &str, share: f64, style: TextStyle) -> String {
    use colored::Colorize;
    if !style.color {
        return text.to_owned();
    }
    const STEPS: [(u8, u8, u8); 5] = [
        (33, 75, 150),
        (40, 130, 140),
        (60, 140, 60),
        (190, 130, 20),
        (190, 40, 40),
    ];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of five steps"
    )]
    let step = ((share.clamp(0.0, 1.0) * 5.0) as usize).min(4);
    let (red, green, blue) = STEPS[step];
    text.truecolor(255, 255, 255)
        .on_truecolor(red, green, blue)
        .to_string()
}

#[cfg(test)]
mod tests;
