//! Reads the progress and remaining time of running trainings from the ends of their logs. All jobs
//! of a page are read concurrently within one second.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use futures::stream::{self, StreamExt};

use gpuctl_cluster::{Connection, LogLine, LogQuery};
use gpuctl_core::model::{Job, JobKind, Percent, State, Status};
use gpuctl_core::stats::logs::progress;
use gpuctl_core::stats::logs::remaining::{CurrentRun, Remaining, remaining};

/// Timeout for the logs of all jobs on a page.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of logs to read concurrently.
const MAX_CONCURRENT: usize = 16;

/// Progress of a training, with the remaining time if its rate is known.
pub(crate) struct JobProgress {
    pub percent: Percent,
    pub remaining: Option<Remaining>,
}

/// Reads the progress of running trainings from the log of rank 0, keyed by the job's index in
/// `jobs`. Omits jobs whose logs are not read within one second.
pub(crate) async fn read_progress(
    connection: &Connection,
    jobs: &[(Job, State)],
    now: Timestamp,
) -> BTreeMap<usize, JobProgress> {
    let deadline = tokio::time::Instant::now() + PROGRESS_TIMEOUT;
    let running = jobs.iter().enumerate().filter(|(_, (job, state))| {
        job.kind == JobKind::Training && state.status == Status::Running
    });
    let tails = running.map(|(index, (job, _))| async move {
        let lines = tokio::time::timeout_at(deadline, tail(connection, job))
            .await
            .ok()?;
        Some((index, job_progress(job, &lines, now)?))
    });
    stream::iter(tails)
        .buffer_unordered(MAX_CONCURRENT)
        .filter_map(|result| async move { result })
        .collect()
        .await
}

/// Computes the progress from the last log lines of rank 0.
pub(crate) fn job_progress(job: &Job, lines: &[LogLine], now: Timestamp) -> Option<JobProgress> {
    let percent = progress::percent(lines.iter().map(|line| line.text.as_str()))?;
    let timed = lines
        .iter()
        .filter_map(|line| Some((line.at?, line.text.as_str())));
    let pods = job.current_pods();
    let run = pods
        .first()
        .map(|pod| CurrentRun::new(job, pod))
        .unwrap_or_default();
    Some(JobProgress {
        percent,
        remaining: remaining(&progress::history(timed), run, now),
    })
}

/// Number of log lines to search for a progress bar or a throughput.
const TAIL_LINES: u32 = 40;

/// Reads the last log lines of rank 0. Returns none if the log is unreadable.
pub(crate) async fn tail(connection: &Connection, job: &Job) -> Vec<LogLine> {
    tail_pod(connection, job, None, TAIL_LINES).await
}

/// Number of bytes at the start of a log in which to search for the first step.
const HEAD_BYTES: usize = 256 * 1024;

/// Reads the first log lines of rank 0. Returns none if the log is unreadable.
pub(crate) async fn head(connection: &Connection, job: &Job) -> Vec<LogLine> {
    let pods = job.current_pods();
    let Some(pod) = pods.first() else {
        return Vec::new();
    };
    let query = LogQuery {
        container: pod.own_container().to_owned(),
        head_bytes: Some(HEAD_BYTES),
        ..LogQuery::default()
    };
    let log = connection
        .logs()
        .read(&job.namespace, &pod.name, &query)
        .await;
    log.unwrap_or_default().lines
}

/// Reads the last `lines` log lines of a pod, by default of rank 0. Returns none if the log is
/// unreadable.
pub(crate) async fn tail_pod(
    connection: &Connection,
    job: &Job,
    pod: Option<&str>,
    lines: u32,
) -> Vec<LogLine> {
    let tail = readable_tail(connection, job, pod, lines).await;
    tail.unwrap_or_default()
}

/// Reads the last `lines` log lines of a pod, by default of rank 0. Returns `None` if the log is
/// unreadable.
pub(crate) async fn readable_tail(
    connection: &Connection,
    job: &Job,
    pod: Option<&str>,
    lines: u32,
) -> Option<Vec<LogLine>> {
    let pods = job.current_pods();
    let pod = pods
        .iter()
        .find(|candidate| pod.is_none_or(|name| candidate.name == name))?;
    let query = LogQuery {
        container: pod.own_container().to_owned(),
        tail: Some(lines),
        ..LogQuery::default()
    };
    let log = connection
        .logs()
        .read(&job.namespace, &pod.name, &query)
        .await;
    log.ok().map(|log| log.lines)
}
