//! Renders hourly rows for people: a table per kind, and the curve of a cluster.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::hourly::{HourlyRow, RowKind, WorkloadRow};
use super::utilization::Utilization;
use crate::format::chart::{ChartFrame, chart};
use crate::format::coverage::percent;
use crate::format::csv;
use crate::format::table::{Cell, Column, Table, left, percentages, right};
use crate::{Format, TextStyle};
use gpuctl_core::model::{Percent, Point, UnixSeconds};

/// Renders rows for people, or as CSV with every field of the rows.
pub fn table(
    kind: RowKind,
    rows: &[HourlyRow],
    format: Format,
    headers: bool,
    look: TextStyle,
) -> String {
    if format == Format::Csv {
        return csv::rows(rows, headers);
    }
    let clusters: BTreeSet<&str> = rows.iter().map(HourlyRow::cluster).collect();
    let several = clusters.len() > 1;
    let own: &[Column] = match kind {
        RowKind::Cluster => &[
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
        RowKind::Namespaces => &[
            left("NAMESPACE"),
            right("HELD"),
            percentages("UTIL"),
            percentages("MIN"),
            percentages("MAX"),
            right("WORKLOADS"),
        ],
        RowKind::Labels => &[
            left("VALUE"),
            right("HELD"),
            percentages("UTIL"),
            percentages("MIN"),
            percentages("MAX"),
            right("WORKLOADS"),
        ],
        RowKind::Workloads => &[
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
    };
    let mut table = Table::new(
        several
            .then_some(left("CLUSTER"))
            .into_iter()
            .chain([left("HOUR")])
            .chain(own.iter().copied()),
    )
    .with_wide();
    for row in rows {
        let mut cells: Vec<Cell> = several.then(|| row.cluster().into()).into_iter().collect();
        let short = row
            .hour()
            .to_string()
            .get(..16)
            .unwrap_or_default()
            .replace('T', " ");
        cells.push(
            if row.is_partial() {
                format!("{short} …")
            } else {
                short
            }
            .into(),
        );
        cells.extend(own_cells(row));
        table.row(cells);
    }
    table.show(format, headers, look)
}

/// Returns the cells of a row behind cluster and hour.
fn own_cells(row: &HourlyRow) -> Vec<Cell> {
    fn number(value: Option<impl Serialize>) -> Cell {
        value
            .map_or_else(
                || "-".to_owned(),
                |value| serde_json::to_string(&value).unwrap_or_default(),
            )
            .into()
    }
    let Utilization {
        avg_utilization,
        max_utilization,
        min_utilization,
        p50_utilization,
        p95_utilization,
    } = row.utilization();
    let share = |value: &Option<Percent>| Cell::from(percent(*value));
    let range = || {
        [
            share(avg_utilization),
            share(min_utilization),
            share(max_utilization),
        ]
    };
    match row {
        HourlyRow::Cluster(row) => vec![
            number(row.total_gpu_capacity),
            number(row.allocated_gpu_count),
            share(&row.allocation_rate),
            share(avg_utilization),
            share(min_utilization),
            share(p50_utilization),
            share(p95_utilization),
            share(max_utilization),
            number(Some(row.group.device_sample_count)),
        ],
        HourlyRow::Namespace(row) => [
            row.namespace.as_str().into(),
            number(Some(row.allocated_gpu_count)),
        ]
        .into_iter()
        .chain(range())
        .chain([number(Some(row.active_workload_count))])
        .collect(),
        HourlyRow::Dimension(row) => [
            row.dimension_value.as_str().into(),
            number(Some(row.allocated_gpu_count)),
        ]
        .into_iter()
        .chain(range())
        .chain([number(Some(row.active_workload_count))])
        .collect(),
        HourlyRow::Workload(row) => vec![
            row.namespace.as_str().into(),
            row.workload_name.as_str().into(),
            row.workload_type.as_str().into(),
            row.workload_status.clone().unwrap_or_default().into(),
            number(Some(row.allocated_gpu_count)),
            share(avg_utilization),
            share(p95_utilization),
            number(row.avg_gpu_memory_used),
            number(row.avg_replica_count),
        ],
    }
}

/// Draws the utilization of a cluster by the hour, for a terminal.
pub fn curve(rows: &[HourlyRow], start: UnixSeconds, end: UnixSeconds, look: TextStyle) -> String {
    let of = |row: &HourlyRow| {
        Some(Point {
            at: row.hour().as_millisecond(),
            value: row.avg_utilization()?.0,
        })
    };
    let points: Vec<Point> = rows.iter().filter_map(of).collect();
    if look.width.is_none() || points.len() < 2 {
        return String::new();
    }
    let width = look.width.unwrap_or(80).min(100);
    let frame = ChartFrame {
        from: start.millis(),
        to: end.millis(),
        top: 100.0,
        height: 5,
        width,
    };
    chart(
        &points,
        frame,
        "utilization of held GPUs by the hour, %",
        look,
    )
}

/// A page of rows.
#[derive(JsonSchema, Serialize)]
pub struct RowPage {
    pub total: usize,
    pub page: usize,
    pub page_size: usize,
    pub total_pages: usize,
    #[schemars(with = "Vec<WorkloadRow>")]
    pub data: Vec<HourlyRow>,
}
