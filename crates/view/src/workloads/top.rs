//! Renders the current use for `top` without a screen: the busiest line first, and the totals of
//! the cluster in JSON.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::values::natural;
use gpuctl_core::model::values::units::UnitValue;
use gpuctl_core::model::{Count, Figures, GpuCount, HeldUse, NodeUsage, Percent, Reading, Watts};

use crate::format::coverage::{Coverage, memory_of, percent, rounded};
use crate::format::table::{Cell, Table, left, percentages, right};
use crate::format::text::{bar, joined, or_dash};
use crate::{Format, TextStyle};

/// A line of the table.
#[derive(Clone, Debug)]
pub struct TopLine {
    pub name: String,
    /// The GPU type of a node, the kind of a job, or the pod that holds a GPU.
    pub about: Option<String>,
    /// Number of held devices of `total`.
    pub held: Option<u64>,
    pub total: u64,
    pub figures: Figures,
}

/// The objects that lines describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopRows {
    Nodes,
    Jobs,
    Gpus,
}

impl TopRows {
    fn word(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Jobs => "jobs",
            Self::Gpus => "gpus",
        }
    }

    fn titles(self) -> (&'static str, &'static str) {
        match self {
            Self::Nodes => ("NODE", "TYPE"),
            Self::Jobs => ("JOB", "KIND"),
            Self::Gpus => ("GPU", "HOLDER"),
        }
    }
}

/// Totals in the first line of the dashboard.
#[derive(Clone, Debug)]
pub struct TopSummary {
    /// Number of nodes with GPUs, or `None` if the user cannot list nodes.
    pub nodes: Option<usize>,
    /// Whole devices, or `None` if the user cannot list nodes.
    pub gpus: Option<Count>,
    pub held_use: HeldUse,
    pub jobs_waiting: u64,
    pub gpus_waiting: GpuCount,
    pub coverage: Option<Coverage>,
}

/// The JSON output of `top`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopList<'a> {
    total: usize,
    items: Vec<TopItem<'a>>,
    /// The kind of the items: `nodes`, `jobs` or `gpus`.
    view: &'static str,
    /// Number of nodes with GPUs; `null` when you are not allowed to list nodes.
    nodes: Option<usize>,
    /// Number of installed whole devices.
    gpu_total: Option<u64>,
    gpu_held: Option<u64>,
    /// Usable whole devices that no pod holds, which a job can get now.
    gpu_free: Option<u64>,
    /// Installed whole devices that are out of service.
    gpu_lost: Option<u64>,
    /// Allocatable whole devices on nodes that accept no new pods.
    gpu_cordoned: Option<u64>,
    /// Mean utilization in percent of the whole devices that pods hold, or of the slices if pods
    /// hold no whole device. Devices without a sample do not count.
    gpu_utilization: Option<Percent>,
    /// Held whole devices that the mean is based on; `null` without metrics.
    gpu_sampled: Option<u64>,
    /// Mean utilization in percent of the slices and shared devices that pods hold.
    slices_utilization: Option<Percent>,
    /// Held slices and shared devices with a sample; `null` without metrics.
    slices_sampled: Option<u64>,
    /// Visible jobs that wait for GPUs.
    jobs_waiting: u64,
    /// GPUs that these jobs lack.
    gpus_waiting: GpuCount,
    /// `null` without metrics.
    coverage: Option<Coverage>,
}

/// A node, a job or a GPU, and how it is used now.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct TopItem<'a> {
    /// Name of the node, `NAMESPACE/NAME` of the job, or `NODE/DEVICE`.
    name: &'a str,
    /// GPU type of the node; `null` for other rows.
    gpu_type: Option<&'a str>,
    /// Kind of the job's object; `null` for other rows.
    kind: Option<&'a str>,
    /// Pod that holds the GPU as `NAMESPACE/NAME`; `null` for other rows.
    holder: Option<&'a str>,
    gpu_held: Option<u64>,
    gpu_total: u64,
    /// Mean utilization in percent.
    gpu_utilization: Option<Percent>,
    /// Devices that the mean is based on.
    gpu_sampled: u64,
    /// Mean memory use per device.
    memory_usage: Option<String>,
    power_watts: Option<Watts>,
}

pub fn document<'a>(rows: TopRows, lines: &'a [TopLine], summary: &TopSummary) -> TopList<'a> {
    let measured = |sampled: u64| summary.coverage.map(|_| sampled);
    TopList {
        total: lines.len(),
        items: lines.iter().map(|line| item(rows, line)).collect(),
        view: rows.word(),
        nodes: summary.nodes,
        gpu_total: summary.gpus.map(|gpus| gpus.total),
        gpu_held: summary.gpus.and_then(|gpus| gpus.used),
        gpu_free: summary.gpus.and_then(Count::free),
        gpu_lost: summary.gpus.map(|gpus| gpus.lost),
        gpu_cordoned: summary.gpus.map(|gpus| gpus.cordoned),
        gpu_utilization: summary.held_use.utilization().map(rounded),
        gpu_sampled: measured(summary.held_use.whole.sampled),
        slices_utilization: summary.held_use.parts.utilization.map(rounded),
        slices_sampled: measured(summary.held_use.parts.sampled),
        jobs_waiting: summary.jobs_waiting,
        gpus_waiting: summary.gpus_waiting,
        coverage: summary.coverage,
    }
}

fn item(rows: TopRows, line: &TopLine) -> TopItem<'_> {
    let about = |of: TopRows| line.about.as_deref().filter(|_| rows == of);
    TopItem {
        name: &line.name,
        gpu_type: about(TopRows::Nodes),
        kind: about(TopRows::Jobs),
        holder: about(TopRows::Gpus),
        gpu_held: line.held,
        gpu_total: line.total,
        gpu_utilization: line.figures.utilization.map(rounded),
        gpu_sampled: line.figures.sampled,
        memory_usage: memory_of(&line.figures),
        power_watts: line.figures.power_in_all.map(rounded),
    }
}

/// Sort key of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopOrder {
    #[default]
    Utilization,
    Memory,
    Power,
    Gpus,
    Name,
}

pub fn of_node(host: &NodeUsage) -> TopLine {
    TopLine {
        name: host.name().to_owned(),
        about: Some(joined(&host.kinds())).filter(|kinds| !kinds.is_empty()),
        held: host.gpus.used,
        total: host.gpus.total,
        figures: host.figures(),
    }
}

pub fn of_gpu(reading: &Reading) -> TopLine {
    let holder = reading
        .holders
        .first()
        .map(|(namespace, pod)| format!("{namespace}/{pod}"));
    TopLine {
        name: format!("{}/{}", reading.node, reading.id()),
        about: holder,
        held: reading.held.map(u64::from),
        total: 1,
        figures: Figures::from_readings(std::iter::once(reading)),
    }
}

/// Sorts lines by value from high to low. Lines without a value come last.
pub fn sort(lines: &mut [TopLine], key: TopOrder) {
    let number = |line: &TopLine| match key {
        TopOrder::Utilization => line.figures.utilization.map(UnitValue::value),
        TopOrder::Memory => line.figures.memory_used.map(UnitValue::value),
        TopOrder::Power => line.figures.power_in_all.map(UnitValue::value),
        TopOrder::Gpus => line.held.map(|held| held as f64),
        TopOrder::Name => None,
    };
    lines.sort_by(|a, b| {
        // Negative infinity for unknown values puts them last in descending order.
        let unknown_last = number(b)
            .unwrap_or(f64::NEG_INFINITY)
            .total_cmp(&number(a).unwrap_or(f64::NEG_INFINITY));
        unknown_last
            .then_with(|| natural::compare(&a.name, &b.name))
            .then_with(|| a.about.cmp(&b.about))
    });
}

pub fn table(
    lines: &[TopLine],
    rows: TopRows,
    format: Format,
    headers: bool,
    style: TextStyle,
) -> String {
    let titles = rows.titles();
    let has_bars = style.width.is_some() && format != Format::Csv;
    let mut columns = vec![left(titles.0), left(titles.1).yielding(), right("GPUS")];
    columns.push(if has_bars {
        left("UTIL")
    } else {
        percentages("UTIL")
    });
    columns.extend([right("MEMORY/GPU").yielding(), right("WATTS").yielding()]);
    let mut table = Table::new(columns);
    for line in lines {
        let gpus = line.held.map_or_else(
            || format!("-/{}", line.total),
            |held| format!("{held}/{}", line.total),
        );
        let utilization = match (line.figures.utilization, has_bars) {
            (Some(value), true) => bar(value, 10, style),
            (value, _) => percent(value),
        };
        let mut cells: Vec<Cell> = vec![
            line.name.clone().into(),
            or_dash(line.about.clone()).into(),
            gpus.into(),
            utilization.into(),
        ];
        let watts = line
            .figures
            .power_in_all
            .map_or_else(|| "-".to_owned(), |Watts(watts)| format!("{watts:.0}"));
        cells.extend([
            memory_of(&line.figures).unwrap_or_default().into(),
            watts.into(),
        ]);
        table.row(cells);
    }
    table.show(format, headers, style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::model::Percent;

    #[test]
    fn the_busiest_come_first_and_unknown_ones_last() {
        let line = |name: &str, utilization: Option<f64>| TopLine {
            name: name.into(),
            about: None,
            held: Some(1),
            total: 1,
            figures: Figures {
                utilization: utilization.map(Percent),
                ..Figures::default()
            },
        };
        let mut lines = [
            line("unknown", None),
            line("idle", Some(0.0)),
            line("busy", Some(90.0)),
        ];
        sort(&mut lines, TopOrder::Utilization);
        assert_eq!(
            lines
                .iter()
                .map(|line| line.name.as_str())
                .collect::<Vec<_>>(),
            ["busy", "idle", "unknown"]
        );
        sort(&mut lines, TopOrder::Name);
        assert_eq!(lines[0].name, "busy");
    }

    #[test]
    fn unknown_sums_are_null_and_not_zero() {
        let line = TopLine {
            name: "team-a/bert".into(),
            about: Some("Job".into()),
            held: Some(1),
            total: 2,
            figures: Figures::default(),
        };
        let summary = TopSummary {
            nodes: None,
            gpus: None,
            held_use: HeldUse::default(),
            jobs_waiting: 1,
            gpus_waiting: GpuCount(1),
            coverage: None,
        };
        let lines = [line];
        let document = serde_json::to_value(document(TopRows::Jobs, &lines, &summary)).unwrap();
        for key in [
            "nodes",
            "gpuTotal",
            "gpuHeld",
            "gpuUtilization",
            "gpuSampled",
            "coverage",
        ] {
            assert!(document[key].is_null(), "{key}: {document}");
        }
        let item = &document["items"][0];
        assert_eq!(
            (&item["kind"], &item["gpuType"]),
            (&"Job".into(), &serde_json::Value::Null)
        );
        let style = TextStyle {
            width: Some(80),
            color: false,
            plain: false,
        };
        let csv = table(&lines, TopRows::Jobs, Format::Csv, true, style);
        assert!(csv.starts_with("job,kind,gpus,util_percent,"), "{csv}");
    }
}
