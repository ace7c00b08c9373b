//! Renders hourly rows as text: a table for each kind of row, and a curve of a cluster's
//! utilization.

use std::collections::BTreeSet;
use std::fmt::Display;

use schemars::JsonSchema;
use serde::Serialize;

use super::hourly::{DimensionRow, HourlyRow, NamespaceRow, RowKind, WorkloadRow};
use crate::format::chart::{ChartFrame, chart};
use crate::format::coverage::percent;
use crate::format::csv;
use crate::format::table::{Cell, Column, Table, left, percentages, right};
use crate::format::text::or_dash;
use crate::{Format, TextStyle};
use gpuctl_core::model::values::units::without_negative_zero;
use gpuctl_core::model::{Percent, Point, UnixSeconds};

/// Renders rows as a table, or as CSV with all fields.
pub fn table(
    kind: RowKind,
    rows: &[HourlyRow],
    format: Format,
    headers: bool,
    style: TextStyle,
) -> String {
    if format == Format::Csv {
        return csv::rows(rows, headers);
    }
    let clusters: BTreeSet<&str> = rows.iter().map(HourlyRow::cluster).collect();
    let has_several_clusters = clusters.len() > 1;
    let mut table = Table::new(
        has_several_clusters
            .then_some(left("CLUSTER"))
            .into_iter()
            .chain([left("HOUR (UTC)")])
            .chain(figure_columns(kind)),
    )
    .with_wide();
    for row in rows {
        let mut cells: Vec<Cell> = has_several_clusters
            .then(|| row.cluster().into())
            .into_iter()
            .collect();
        // Truncate the RFC 3339 time after the minutes.
        let short = row
            .hour()
            .to_string()
            .get(..16)
            .unwrap_or_default()
            .replace('T', " ");
        // Mark the current hour, which is incomplete, with `…`.
        cells.push(
            if row.is_partial() {
                format!("{short} …")
            } else {
                short
            }
            .into(),
        );
        cells.extend(figure_cells(row));
        table.row(cells);
    }
    table.show(format, headers, style)
}

/// Explains why UTIL can differ from that of `report`.
pub const WEIGHTS: &str = "UTIL weights by five minutes, and that of `report` by GPU-hours";

/// Returns the columns after the cluster and the hour.
fn figure_columns(kind: RowKind) -> Vec<Column> {
    match kind {
        RowKind::Cluster => vec![
            right("GPUS"),
            right("HELD"),
            percentages("RATE"),
            percentages("UTIL"),
            percentages("MIN"),
            percentages("P50"),
            percentages("P95"),
            percentages("MAX"),
            right("SAMPLES"),
        ],
        RowKind::Namespaces => vec![
            left("NAMESPACE"),
            right("HELD"),
            percentages("UTIL"),
            percentages("MIN"),
            percentages("MAX"),
            right("WORKLOADS"),
        ],
        RowKind::Labels => vec![
            left("VALUE"),
            right("HELD"),
            percentages("UTIL"),
            percentages("MIN"),
            percentages("MAX"),
            right("WORKLOADS"),
        ],
        RowKind::Workloads => vec![
            left("NAMESPACE"),
            left("WORKLOAD"),
            left("KIND").yielding(),
            left("STATUS").yielding(),
            right("HELD"),
            percentages("UTIL"),
            percentages("P95").yielding(),
            right("MEM GIB").yielding(),
            right("PODS").yielding(),
        ],
    }
}

/// Returns the cells after the cluster and the hour.
fn figure_cells(row: &HourlyRow) -> Vec<Cell> {
    let windows = row.utilization();
    let share = |value: Option<Percent>| Cell::from(percent(value));
    match row {
        HourlyRow::Cluster(row) => vec![
            number(row.total_gpu_capacity),
            decimal(row.allocated_gpu_count),
            share(row.allocation_rate),
            share(windows.avg_utilization),
            share(windows.min_utilization),
            share(windows.p50_utilization),
            share(windows.p95_utilization),
            share(windows.max_utilization),
            number(Some(row.group.device_sample_count)),
        ],
        HourlyRow::Namespace(NamespaceRow {
            namespace: name,
            allocated_gpu_count,
            active_workload_count,
            ..
        })
        | HourlyRow::Dimension(DimensionRow {
            dimension_value: name,
            allocated_gpu_count,
            active_workload_count,
            ..
        }) => vec![
            name.as_str().into(),
            decimal(Some(*allocated_gpu_count)),
            share(windows.avg_utilization),
            share(windows.min_utilization),
            share(windows.max_utilization),
            number(Some(active_workload_count)),
        ],
        HourlyRow::Workload(row) => vec![
            row.namespace.as_str().into(),
            row.workload_name.as_str().into(),
            row.workload_type.as_str().into(),
            row.workload_status.clone().unwrap_or_default().into(),
            decimal(Some(row.allocated_gpu_count)),
            share(windows.avg_utilization),
            share(windows.p95_utilization),
            decimal(row.avg_gpu_memory_used),
            decimal(row.avg_replica_count),
        ],
    }
}

/// Formats a count, or `-` if it is unknown.
fn number(value: Option<impl Display>) -> Cell {
    or_dash(value).into()
}

/// Formats a number with two decimals, or `-` if it is unknown.
fn decimal(value: Option<f64>) -> Cell {
    or_dash(value.map(|value| format!("{:.2}", without_negative_zero(value)))).into()
}

/// Draws the hourly utilization of a cluster if the output is a terminal.
pub fn curve(rows: &[HourlyRow], start: UnixSeconds, end: UnixSeconds, style: TextStyle) -> String {
    let point_of = |row: &HourlyRow| {
        Some(Point {
            at: row.hour().as_millisecond(),
            value: row.avg_utilization()?.0,
        })
    };
    let points: Vec<Point> = rows.iter().filter_map(point_of).collect();
    // A curve needs at least two points.
    if style.width.is_none() || points.len() < 2 {
        return String::new();
    }
    let width = style.width.unwrap_or(80).min(100);
    let frame = ChartFrame {
        from: start.millis(),
        to: end.millis(),
        top: 100.0,
        height: 5,
        width,
    };
    chart(&points, frame, "hourly utilization of held GPUs, %", style)
}

/// A page of rows.
#[derive(JsonSchema, Serialize)]
pub struct RowPage {
    pub total: usize,
    pub page: usize,
    pub page_size: usize,
    pub total_pages: usize,
    // Only `stats workloads` prints pages.
    #[schemars(with = "Vec<WorkloadRow>")]
    pub data: Vec<HourlyRow>,
}
