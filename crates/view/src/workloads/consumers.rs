//! Renders `get consumers`: workloads and the use of their devices. In JSON, rates are from 0 to 1.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{Figures, GpuCount, Workload};

use super::list::{SOURCE, held, status_cell};
use crate::format::coverage;
use crate::format::coverage::{Coverage, rate};
use crate::format::table::{Cell, Table, left, percentages, right};
use crate::format::text::plain_name;
use crate::{Format, TextStyle};

/// A workload with the metrics of its devices.
pub struct ConsumerRow<'a> {
    pub workload: &'a Workload,
    /// `None` without metrics.
    pub figures: Option<Figures>,
}

/// A page of consumers.
#[derive(JsonSchema, Serialize)]
pub struct ConsumerList {
    data: Vec<ConsumerItem>,
    total: usize,
    coverage: Option<Coverage>,
}

#[derive(JsonSchema, Serialize)]
struct ConsumerItem {
    kind: String,
    name: String,
    namespace: String,
    uid: String,
    stat: Stat,
    pods: Option<Vec<String>>,
    source: &'static str,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stat {
    gpu_request: GpuCount,
    gpu_allocated: GpuCount,
    /// Mean utilization of the devices that it holds. Devices without a sample do not count.
    gpu_utilization: Option<f64>,
    gpu_sampled: Option<u64>,
    /// Devices that other pods share, so that the mean includes the use of these pods.
    gpu_shared: Option<u64>,
}

pub fn consumers(
    rows: &[ConsumerRow<'_>],
    total: usize,
    coverage: Option<Coverage>,
) -> ConsumerList {
    let item = |row: &ConsumerRow<'_>| ConsumerItem {
        kind: row.workload.top.kind.clone(),
        name: row.workload.top.name.clone(),
        namespace: row.workload.top.namespace.clone(),
        uid: row.workload.top.uid.clone(),
        stat: Stat {
            gpu_request: row.workload.requested,
            gpu_allocated: held(row.workload),
            gpu_utilization: row
                .figures
                .and_then(|figures| figures.utilization)
                .map(rate),
            gpu_sampled: row.figures.map(|figures| figures.sampled),
            gpu_shared: row.figures.map(|figures| figures.shared),
        },
        pods: None,
        source: SOURCE,
    };
    ConsumerList {
        data: rows.iter().map(item).collect(),
        total,
        coverage,
    }
}

/// Renders consumers as a table.
pub fn consumer_table(
    rows: &[ConsumerRow<'_>],
    format: Format,
    headers: bool,
    style: TextStyle,
) -> String {
    let mut table = Table::new([
        left("NAMESPACE"),
        left("KIND"),
        left("NAME"),
        left("STATUS"),
        right("REQUESTED"),
        right("HELD"),
        percentages("UTIL"),
        right("MEMORY/GPU").yielding().in_csv("memory_gib_per_gpu"),
    ])
    .with_wide();
    for ConsumerRow { workload, figures } in rows {
        table.row(vec![
            workload.top.namespace.clone().into(),
            workload.top.kind.clone().into(),
            plain_name(&workload.top.name).into_owned().into(),
            status_cell(workload),
            workload.requested.to_string().into(),
            held(workload).to_string().into(),
            coverage::utilization_cell(*figures, style),
            Cell::measured(
                figures
                    .as_ref()
                    .and_then(coverage::memory_of)
                    .unwrap_or_default(),
                figures
                    .and_then(|figures| figures.memory_used)
                    .map(|used| format!("{:.2}", used.gibibytes())),
            ),
        ]);
    }
    let mut text = table.show(format, headers, style);
    let is_marked = |row: &ConsumerRow<'_>| {
        row.figures
            .is_some_and(|figures| figures.shared > 0 && figures.utilization.is_some())
    };
    if style.width.is_some() && format != Format::Csv && rows.iter().any(is_marked) {
        text.push_str("* other pods share these devices, and the utilization includes theirs\n");
    }
    text
}
