//! Renders `get jobs`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{Figures, GpuCount, Job, Percent, State};
use gpuctl_core::stats::logs::remaining::Remaining;

use super::remaining::RemainingTime;
use crate::format::coverage::{Coverage, memory_of, rounded, utilization_cell};
use crate::format::row_contexts::RowContexts;
use crate::format::table::{Cell, Column, Table, left, percentages, right};
use crate::format::text::{bar, clean, labels, status_color};
use crate::{Format, TextStyle};

/// A job with its state and metrics.
#[derive(Clone, Debug)]
pub struct JobRow {
    pub job: Job,
    pub state: State,
    /// In percent.
    pub progress: Option<Percent>,
    pub remaining: Option<Remaining>,
    /// Use of the job's devices, or `None` without metrics.
    pub figures: Option<Figures>,
}

/// A page of jobs.
#[derive(JsonSchema, Serialize)]
pub struct JobList {
    /// Number of matching jobs on all pages.
    pub total: usize,
    pub items: Vec<JobItem>,
    /// `null` without metrics.
    coverage: Option<Coverage>,
}

/// A job. GPU counts show what it requests in total and what it holds now.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobItem {
    /// The kubeconfig context of its cluster, with `--all-contexts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    /// The name that other commands accept.
    job_id: String,
    name: String,
    namespace: String,
    /// One of `training`, `inference`, `notebook` and `compute`.
    kind: &'static str,
    pool: Option<String>,
    /// The state that `gpuctl get jobs` shows, such as `pending`, `running`, `succeeded` or
    /// `failed`.
    status: &'static str,
    /// Why it has this status, as one word, such as `Unschedulable` or `OOMKilled`.
    reason: Option<String>,
    /// Why it has this status, as a sentence.
    message: Option<String>,
    /// GPUs that all its pods request.
    gpu: GpuCount,
    /// GPUs that its pods hold now.
    gpu_held: GpuCount,
    /// GPU type as in `resources.gpu-type`, such as `a100-80g`.
    gpu_type: Option<String>,
    /// The user who submitted it.
    user: Option<String>,
    /// `job.queue` of the job file.
    queue: Option<String>,
    /// Why the queue holds the job back; `null` if it does not.
    queue_reason: Option<String>,
    /// Position among the waiting jobs of `queue`, starting at 1; `null` when it is unknown.
    queue_position: Option<u64>,
    /// Position among the waiting jobs of all queues of its ClusterQueue, starting at 1. Kueue
    /// admits jobs in this order.
    cluster_queue_position: Option<u64>,
    /// Number of its running pods.
    pods_running: u32,
    /// Desired number of pods.
    pods_wanted: u32,
    created_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    /// Progress in percent, as a whole number.
    progress: Option<u8>,
    /// Estimated time until a running training ends; `null` if its progress shows no rate.
    remaining: Option<RemainingTime>,
    /// Mean utilization in percent of the devices that it holds. Devices without a sample do not
    /// count.
    gpu_utilization: Option<Percent>,
    /// Number of devices that the means are based on.
    gpu_sampled: Option<u64>,
    /// Devices that other pods share, so that the mean includes the use of these pods.
    gpu_shared: Option<u64>,
    /// Mean memory use per device.
    memory_usage: Option<String>,
}

impl From<&JobRow> for JobItem {
    fn from(row: &JobRow) -> Self {
        let JobRow {
            job,
            state,
            progress,
            remaining,
            figures,
        } = row;
        Self {
            context: None,
            job_id: job.name.clone(),
            name: job.display_name.clone(),
            namespace: job.namespace.clone(),
            kind: job.kind.word(),
            pool: job.pool.clone(),
            status: state.status.word(),
            reason: state.reason.clone(),
            message: state.message.clone(),
            gpu: job.gpus(),
            gpu_held: job.gpus_held(),
            gpu_type: job.gpu_type.clone(),
            user: job.user.clone(),
            queue: job.queue.clone(),
            queue_reason: job
                .queue_verdict
                .as_ref()
                .map(|verdict| verdict.reason.clone()),
            queue_position: job.queue_position.map(|position| position.in_queue),
            cluster_queue_position: job.queue_position.map(|position| position.in_cluster_queue),
            pods_running: state.running,
            pods_wanted: state.wanted,
            created_at: job.created_at,
            started_at: job.started_at(),
            finished_at: job.ended_at(),
            progress: progress.map(whole_percent),
            remaining: remaining.map(RemainingTime::from),
            gpu_utilization: figures.and_then(|figures| figures.utilization).map(rounded),
            gpu_sampled: figures.map(|figures| figures.sampled),
            gpu_shared: figures.map(|figures| figures.shared),
            memory_usage: figures.and_then(|figures| memory_of(&figures)),
        }
    }
}

/// Rounds down, because a job at 99.9 % is not complete.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is between 0 and 100"
)]
pub(crate) fn whole_percent(Percent(percent): Percent) -> u8 {
    percent.clamp(0.0, 100.0).floor() as u8
}

pub fn list(
    rows: &[JobRow],
    contexts: RowContexts<'_>,
    total: usize,
    coverage: Option<Coverage>,
) -> JobList {
    let item = |(index, row): (usize, &JobRow)| JobItem {
        context: contexts.owned(index),
        ..JobItem::from(row)
    };
    JobList {
        total,
        items: rows.iter().enumerate().map(item).collect(),
        coverage,
    }
}

/// Renders jobs as a table. Shows namespaces and users only if they differ between jobs, and labels
/// only on request.
pub fn table(
    rows: &[JobRow],
    contexts: RowContexts<'_>,
    format: Format,
    headers: bool,
    labels: bool,
    style: TextStyle,
    now: Timestamp,
) -> String {
    let columns = ShownColumns {
        labels,
        ..ShownColumns::choose(rows, format, style)
    };
    let mut table = Table::new(columns.columns()).with_wide();
    for row in rows {
        table.row(columns.cells(row, style, now));
    }
    table.with_contexts(contexts).show(format, headers, style)
}

/// The optional columns of a list, and the format of its cells.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each controls a separate column"
)]
struct ShownColumns {
    namespaces: bool,
    users: bool,
    /// Whether to show remaining times, which are about as wide as names.
    remaining: bool,
    messages: bool,
    labels: bool,
    /// Whether to draw progress as a bar. Metrics leave no space for bars.
    bars: bool,
    /// Whether to print states without the position in the queue, for scripts.
    bare_states: bool,
}

impl ShownColumns {
    fn choose(rows: &[JobRow], format: Format, style: TextStyle) -> Self {
        let wide = matches!(format, Format::Wide | Format::Csv);
        let differs = |key: fn(&JobRow) -> Option<&str>| {
            rows.iter()
                .any(|row| key(row) != rows.first().and_then(key))
        };
        Self {
            namespaces: wide || differs(|row| Some(&row.job.namespace)),
            users: wide || differs(|row| row.job.user.as_deref()),
            remaining: wide || rows.iter().any(|row| row.remaining.is_some()),
            messages: wide,
            labels: false,
            bars: style.width.is_some()
                && format == Format::Table
                && rows.iter().all(|row| row.figures.is_none()),
            bare_states: format == Format::Csv,
        }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        columns.extend(self.namespaces.then_some(left("NAMESPACE")));
        columns.extend([
            left("NAME"),
            left("KIND").yielding(),
            left("STATUS"),
            right("GPU"),
            left("TYPE").yielding(),
            percentages("UTIL"),
            left("POOL").yielding(),
        ]);
        columns.extend(self.users.then_some(left("USER").yielding()));
        columns.extend([
            right("AGE").in_csv("age_seconds"),
            if self.bars {
                left("PROGRESS")
            } else {
                percentages("PROGRESS")
            },
        ]);
        let remaining = right("REMAINING").yielding().in_csv("remaining_seconds");
        columns.extend(self.remaining.then_some(remaining));
        columns.extend(self.messages.then_some(left("MESSAGE")));
        columns.extend(self.labels.then_some(left("LABELS")));
        columns
    }

    fn cells(&self, row: &JobRow, style: TextStyle, now: Timestamp) -> Vec<Cell> {
        let JobRow {
            job,
            state,
            progress,
            remaining,
            figures,
        } = row;
        let mut cells: Vec<Cell> = Vec::new();
        cells.extend(self.namespaces.then(|| job.namespace.clone().into()));
        let position = job
            .queue_position
            .map_or(String::new(), |position| format!(" {position}"));
        let status = if self.bare_states {
            state.status.to_string()
        } else {
            format!("{state}{position}")
        };
        cells.extend([
            job.name.clone().into(),
            job.kind.word().into(),
            Cell::colored(status, status_color(state.status)),
            job.gpus().to_string().into(),
            job.gpu_type.clone().unwrap_or_default().into(),
            utilization_cell(*figures, style),
            job.pool.clone().unwrap_or_default().into(),
        ]);
        cells.extend(
            self.users
                .then(|| job.user.clone().unwrap_or_default().into()),
        );
        let progress = match (progress, self.bars) {
            (None, _) => "-".to_owned(),
            (Some(percent), true) => bar(*percent, 5, style),
            (Some(percent), false) => format!("{percent:.0}%"),
        };
        cells.extend([Cell::age(job.created_at, now), progress.into()]);
        let remaining = remaining.map(RemainingTime::from);
        let time = Cell::measured(
            remaining.map_or_else(|| "-".to_owned(), RemainingTime::text),
            remaining.map(RemainingTime::seconds),
        );
        cells.extend(self.remaining.then_some(time));
        cells.extend(
            self.messages
                .then(|| state.message.clone().unwrap_or_default().into()),
        );
        cells.extend(self.labels.then(|| labels(&job.labels).into()));
        cells
    }
}

/// Returns the names that other commands accept, for `-o name`.
pub fn names(rows: &[JobRow]) -> Vec<String> {
    rows.iter()
        .map(|row| format!("{}/{}", clean(&row.job.namespace), clean(&row.job.name)))
        .collect()
}
