//! Renders `get jobs`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{Figures, GpuCount, Job, Percent, State};

use crate::format::coverage::{Coverage, memory_of, percent, rounded};
use crate::format::table::{Cell, Column, Table, left, percentages, right};
use crate::format::text::{bar, clean, status_color};
use crate::{Format, TextStyle};

/// A job with what was found out about it.
#[derive(Clone, Debug)]
pub struct JobRow {
    pub job: Job,
    pub state: State,
    /// Percent.
    pub progress: Option<Percent>,
    /// What its devices do; `None` without metrics.
    pub figures: Option<Figures>,
}

/// The page of a list.
#[derive(JsonSchema, Serialize)]
pub struct JobList {
    /// Jobs that match, on all pages.
    pub total: usize,
    pub items: Vec<JobItem>,
    /// `null` without metrics.
    coverage: Option<Coverage>,
}

/// One job in JSON. Counts of GPUs are what is requested in all, and what is held now.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobItem {
    /// Its name, as commands take it.
    job_id: String,
    name: String,
    namespace: String,
    /// `training`, `inference`, `notebook`, `compute`.
    kind: &'static str,
    pool: Option<String>,
    /// What its pods do, in the words of `gpuctl get jobs`: `pending`, `running`, `succeeded`,
    /// `failed`, ….
    status: &'static str,
    /// Why it has this status, in one word: `Unschedulable`, `OOMKilled`.
    reason: Option<String>,
    /// The same in a sentence.
    message: Option<String>,
    /// What it requests in all.
    gpu: GpuCount,
    /// What its pods hold now.
    gpu_held: GpuCount,
    /// As `resources.gpu-type` is written: `a100-80g`.
    gpu_type: Option<String>,
    /// Who submitted it.
    user: Option<String>,
    /// `job.queue`.
    queue: Option<String>,
    /// The queue's own word for why it holds the job back; `null` for jobs that it does not.
    queue_reason: Option<String>,
    /// From 1 on, among those that wait in `queue`; `null` where that is not known.
    queue_position: Option<u64>,
    /// From 1 on, among those that wait in all queues of its ClusterQueue: the order in which Kueue
    /// admits.
    cluster_queue_position: Option<u64>,
    /// Pods of it that run.
    pods_running: u32,
    /// Pods that it shall have.
    pods_wanted: u32,
    created_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    /// Whole percent done.
    progress: Option<u8>,
    /// Mean in percent over the devices that it holds and that were sampled.
    gpu_utilization: Option<Percent>,
    /// Devices behind the means.
    gpu_sampled: Option<u64>,
    /// Mean per device.
    memory_usage: Option<String>,
}

impl From<&JobRow> for JobItem {
    fn from(row: &JobRow) -> Self {
        let JobRow {
            job,
            state,
            progress,
            figures,
        } = row;
        Self {
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
            gpu_utilization: figures.and_then(|figures| figures.utilization).map(rounded),
            gpu_sampled: figures.map(|figures| figures.sampled),
            memory_usage: figures.and_then(|figures| memory_of(&figures)),
        }
    }
}

/// Rounds down: 99.9 % is not done yet.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is between 0 and 100"
)]
pub(crate) fn whole_percent(Percent(percent): Percent) -> u8 {
    percent.clamp(0.0, 100.0).floor() as u8
}

/// Returns the list as JSON.
pub fn list(rows: &[JobRow], total: usize, coverage: Option<Coverage>) -> JobList {
    JobList {
        total,
        items: rows.iter().map(JobItem::from).collect(),
        coverage,
    }
}

/// Returns the list for people. A column appears when it tells something: the namespace with more
/// than one, the user likewise.
pub fn table(
    rows: &[JobRow],
    format: Format,
    headers: bool,
    look: TextStyle,
    now: Timestamp,
) -> String {
    let shown = ShownColumns::choose(rows, format, look);
    let mut table = Table::new(shown.columns()).with_wide();
    for row in rows {
        table.row(shown.cells(row, look, now));
    }
    table.show(format, headers, look)
}

/// Which columns a list has, and how their cells are written.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each decides on a column of its own"
)]
struct ShownColumns {
    namespaces: bool,
    users: bool,
    messages: bool,
    /// Progress as a bar: next to measured numbers it would only take their room.
    bars: bool,
    /// States as programs read them, without a position.
    bare_states: bool,
}

impl ShownColumns {
    fn choose(rows: &[JobRow], format: Format, look: TextStyle) -> Self {
        let wide = matches!(format, Format::Wide | Format::Csv);
        let several = |key: fn(&JobRow) -> Option<&str>| {
            rows.iter()
                .any(|row| key(row) != rows.first().and_then(key))
        };
        Self {
            namespaces: wide || several(|row| Some(&row.job.namespace)),
            users: wide || several(|row| row.job.user.as_deref()),
            messages: wide,
            bars: look.width.is_some()
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
        columns.extend(self.messages.then_some(left("MESSAGE")));
        columns
    }

    fn cells(&self, row: &JobRow, look: TextStyle, now: Timestamp) -> Vec<Cell> {
        let JobRow {
            job,
            state: found,
            progress,
            figures,
        } = row;
        let mut cells: Vec<Cell> = Vec::new();
        cells.extend(self.namespaces.then(|| job.namespace.clone().into()));
        let position = job
            .queue_position
            .map_or(String::new(), |position| format!(" {position}"));
        let status = if self.bare_states {
            found.status.to_string()
        } else {
            format!("{found}{position}")
        };
        cells.extend([
            job.name.clone().into(),
            job.kind.word().into(),
            Cell::colored(status, status_color(found.status)),
            job.gpus().to_string().into(),
            job.gpu_type.clone().unwrap_or_default().into(),
            percent(figures.and_then(|figures| figures.utilization)).into(),
            job.pool.clone().unwrap_or_default().into(),
        ]);
        cells.extend(
            self.users
                .then(|| job.user.clone().unwrap_or_default().into()),
        );
        let progress = match (progress, self.bars) {
            (None, _) => "-".to_owned(),
            (Some(percent), true) => bar(*percent, 5, look),
            (Some(percent), false) => format!("{percent:.0}%"),
        };
        cells.extend([Cell::age(job.created_at, now), progress.into()]);
        cells.extend(
            self.messages
                .then(|| found.message.clone().unwrap_or_default().into()),
        );
        cells
    }
}

/// Returns the names for `-o name`, which other commands accept.
pub fn names(rows: &[JobRow]) -> Vec<String> {
    rows.iter()
        .map(|row| format!("{}/{}", clean(&row.job.namespace), clean(&row.job.name)))
        .collect()
}
