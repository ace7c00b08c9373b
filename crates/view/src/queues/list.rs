//! Renders queues, and one queue with its jobs.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::coverage::{percent, rounded};
use crate::format::table::{Cell, Table, left, percentages, right};
use crate::format::text::{clean, labels, or_dash, status_color, status_line};
use crate::{Format, TextStyle};
use gpuctl_core::model::{Figures, GpuCount, Job, Percent, Queue, State};

/// A queue with metrics of its jobs' GPUs, or `None` without metrics.
#[derive(Clone, Debug)]
pub struct QueueRow {
    pub queue: Queue,
    pub figures: Option<Figures>,
}

/// The JSON output of `get queues`.
#[derive(JsonSchema, Serialize)]
pub struct QueueList<'a> {
    total: usize,
    items: Vec<QueueItem<'a>>,
}

/// A queue. GPU counts are `null` when they are unknown or unlimited.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct QueueItem<'a> {
    name: &'a str,
    namespace: Option<&'a str>,
    /// `kueue` or `volcano`.
    system: &'static str,
    cluster_queue: Option<&'a str>,
    active: bool,
    /// Why it is not active.
    message: Option<&'a str>,
    gpu_quota: Option<GpuCount>,
    gpu_used: Option<GpuCount>,
    gpu_borrowed: Option<GpuCount>,
    /// Mean utilization in percent of the GPUs that gpuctl's jobs in the queue hold. GPUs without a
    /// sample do not count. `null` without metrics.
    gpu_utilization: Option<Percent>,
    gpu_sampled: Option<u64>,
    jobs_running: Option<u64>,
    jobs_waiting: Option<u64>,
}

/// The JSON output of `describe queue`.
#[derive(JsonSchema, Serialize)]
pub struct QueueDescription<'a> {
    #[serde(flatten)]
    queue: QueueItem<'a>,
    /// The jobs in the queue that gpuctl created, running ones first.
    jobs: Vec<QueuedJob<'a>>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct QueuedJob<'a> {
    job_id: &'a str,
    namespace: &'a str,
    status: &'static str,
    queue_reason: Option<&'a str>,
    queue_position: Option<u64>,
    cluster_queue_position: Option<u64>,
    message: Option<&'a str>,
    gpu: GpuCount,
    gpu_held: GpuCount,
    user: Option<&'a str>,
    created_at: Option<Timestamp>,
}

pub fn list(rows: &[QueueRow], total: usize) -> QueueList<'_> {
    QueueList {
        total,
        items: rows
            .iter()
            .map(|row| item(&row.queue, row.figures))
            .collect(),
    }
}

fn item(queue: &Queue, figures: Option<Figures>) -> QueueItem<'_> {
    QueueItem {
        name: &queue.name,
        namespace: queue.namespace.as_deref(),
        system: queue.system.word(),
        cluster_queue: queue.cluster_queue.as_deref(),
        active: queue.active,
        message: queue.message.as_deref(),
        gpu_quota: queue.quota,
        gpu_used: queue.used,
        gpu_borrowed: queue.borrowed,
        gpu_utilization: figures.and_then(|figures| figures.utilization).map(rounded),
        gpu_sampled: figures.map(|figures| figures.sampled),
        jobs_running: queue.running,
        jobs_waiting: queue.waiting,
    }
}

/// Returns the name that `describe queue` accepts.
pub fn name(queue: &Queue) -> String {
    match &queue.namespace {
        Some(namespace) => format!("{}/{}", clean(namespace), clean(&queue.name)),
        None => clean(&queue.name).into_owned(),
    }
}

/// Formats a count for a sentence.
fn or_unknown(count: Option<impl ToString>) -> String {
    count.map_or_else(|| "an unknown number".to_owned(), |count| count.to_string())
}

pub fn table(rows: &[QueueRow], format: Format, headers: bool, style: TextStyle) -> String {
    let show_labels = rows.iter().any(|row| row.queue.labels.is_some());
    let mut columns = vec![
        left("NAMESPACE"),
        left("NAME"),
        left("SYSTEM").yielding(),
        right("QUOTA"),
        right("USED"),
        right("BORROWED").yielding(),
        percentages("UTIL"),
        right("RUNNING"),
        right("WAITING"),
        left("CLUSTER QUEUE").yielding(),
        left("STATUS"),
    ];
    columns.extend(show_labels.then_some(left("LABELS")));
    let mut table = Table::new(columns).with_wide();
    for QueueRow { queue, figures } in rows {
        let status = if queue.active { "active" } else { "inactive" };
        let color = (!queue.active).then_some(colored::Color::Red);
        let mut cells: Vec<Cell> = vec![
            queue
                .namespace
                .clone()
                .unwrap_or_else(|| "-".to_owned())
                .into(),
            queue.name.clone().into(),
            queue.system.word().into(),
            or_dash(queue.quota).into(),
            or_dash(queue.used).into(),
            or_dash(queue.borrowed).into(),
            percent(figures.and_then(|figures| figures.utilization)).into(),
            or_dash(queue.running).into(),
            or_dash(queue.waiting).into(),
            queue
                .cluster_queue
                .clone()
                .unwrap_or_else(|| "-".to_owned())
                .into(),
            Cell::colored(status, color),
        ];
        cells.extend(
            queue
                .labels
                .as_ref()
                .map(|of_queue| labels(of_queue).into()),
        );
        table.row(cells);
    }
    table.show(format, headers, style)
}

pub fn description<'a>(
    queue: &'a Queue,
    figures: Option<Figures>,
    jobs: &'a [(State, Job)],
) -> QueueDescription<'a> {
    let job = |(state, job): &'a (State, Job)| QueuedJob {
        job_id: &job.name,
        namespace: &job.namespace,
        status: state.status.word(),
        queue_reason: job
            .queue_verdict
            .as_ref()
            .map(|verdict| verdict.reason.as_str()),
        queue_position: job.queue_position.map(|position| position.in_queue),
        cluster_queue_position: job.queue_position.map(|position| position.in_cluster_queue),
        message: state.message.as_deref(),
        gpu: job.gpus(),
        gpu_held: job.gpus_held(),
        user: job.user.as_deref(),
        created_at: job.created_at,
    };
    QueueDescription {
        queue: item(queue, figures),
        jobs: jobs.iter().map(job).collect(),
    }
}

/// Renders a queue and its jobs as text.
pub fn text(
    queue: &Queue,
    figures: Option<Figures>,
    jobs: &[(State, Job)],
    style: TextStyle,
    now: Timestamp,
) -> String {
    let cluster_queue = queue
        .cluster_queue
        .as_ref()
        .map_or(String::new(), |cluster_queue| {
            format!("   cluster queue {}", clean(cluster_queue))
        });
    let mut text = format!("{}   {}{cluster_queue}\n", name(queue), queue.system.name());
    if let Some(message) = &queue.message {
        text.push_str(&status_line("inactive", &clean(message)));
    }
    text.push_str(&status_line("GPUs", &gpu_use(queue, figures)));
    text.push_str(&status_line(
        "jobs",
        &format!(
            "{} running, {} waiting",
            or_unknown(queue.running),
            or_unknown(queue.waiting)
        ),
    ));
    text.push_str(&job_table(jobs, style, now));
    text
}

/// Formats the used GPUs and the quota of a queue.
fn gpu_use(queue: &Queue, figures: Option<Figures>) -> String {
    let beyond = queue.borrowed.filter(|borrowed| *borrowed > GpuCount::ZERO);
    let beyond = beyond.map_or(String::new(), |borrowed| {
        format!("; the cluster queue borrows {borrowed}")
    });
    let quota = queue.quota.map_or(
        "; no quota is set, or you are not allowed to see it".to_owned(),
        |quota| format!(" of {quota}"),
    );
    let busy = figures
        .and_then(|figures| figures.utilization)
        .map_or(String::new(), |Percent(value)| {
            format!("; {value:.0}% utilized")
        });
    format!("{} used{quota}{beyond}{busy}", or_unknown(queue.used))
}

fn job_table(jobs: &[(State, Job)], style: TextStyle, now: Timestamp) -> String {
    if jobs.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        left("JOB"),
        left("STATUS"),
        right("GPU"),
        left("USER").yielding(),
        right("AGE").in_csv("age_seconds"),
        left("WHY"),
    ]);
    for (state, job) in jobs {
        let position = job
            .queue_position
            .map_or(String::new(), |position| format!(" {position}"));
        table.row(vec![
            job.name.clone().into(),
            Cell::colored(format!("{state}{position}"), status_color(state.status)),
            job.gpus().to_string().into(),
            job.user.clone().unwrap_or_default().into(),
            Cell::age(job.created_at, now),
            job.queue_verdict
                .as_ref()
                .map(|verdict| verdict.message.clone())
                .or_else(|| state.message.clone())
                .unwrap_or_default()
                .into(),
        ]);
    }
    table.show(Format::Table, true, style)
}
