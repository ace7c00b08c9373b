//! Reads the progress of running trainings from the newest lines of their logs, many jobs at the
//! same time, within one second.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, StreamExt};

use gpuctl_cluster::{Connection, LogLine, LogQuery};
use gpuctl_core::model::{Job, JobKind, Percent, State, Status};
use gpuctl_core::stats::logs::progress;

/// All log tails of one page together.
const PROGRESS_WITHIN: Duration = Duration::from_secs(1);

/// Logs that are read at the same time.
const AT_ONCE: usize = 16;

/// Returns percent by index: reads one tail of rank 0's log per running training, all within a
/// second.
pub(crate) async fn progress_of(
    connection: &Connection,
    jobs: &[(Job, State)],
) -> BTreeMap<usize, Percent> {
    let deadline = tokio::time::Instant::now() + PROGRESS_WITHIN;
    let running = jobs.iter().enumerate().filter(|(_, (job, state))| {
        job.kind == JobKind::Training && state.status == Status::Running
    });
    let tails = running.map(|(index, (job, _))| async move {
        let lines = tokio::time::timeout_at(deadline, tail(connection, job))
            .await
            .ok()?;
        Some((
            index,
            progress::percent(lines.iter().map(|line| line.text.as_str()))?,
        ))
    });
    stream::iter(tails)
        .buffer_unordered(AT_ONCE)
        .filter_map(|found| async move { found })
        .collect()
        .await
}

/// Lines of a log in which a progress bar or a throughput is looked for.
const FEW_LINES: u32 = 40;

/// Returns the newest lines of the first rank; none where they cannot be had.
pub(crate) async fn tail(connection: &Connection, job: &Job) -> Vec<LogLine> {
    tail_of(connection, job, None, FEW_LINES).await
}

/// Returns so many of the newest lines of a pod, of the first rank where none is named; none where
/// they cannot be had.
pub(crate) async fn tail_of(
    connection: &Connection,
    job: &Job,
    pod: Option<&str>,
    lines: u32,
) -> Vec<LogLine> {
    let pods = job.current_pods();
    let Some(pod) = pods
        .iter()
        .find(|one| pod.is_none_or(|name| one.name == name))
    else {
        return Vec::new();
    };
    let query = LogQuery {
        container: pod.own_container().to_owned(),
        tail: Some(lines),
        ..LogQuery::default()
    };
    connection
        .logs()
        .read(&job.namespace, &pod.name, &query)
        .await
        .unwrap_or_default()
        .lines
}
