//! Scans the logs of all ranks concurrently and finds the earliest error. Keeps only that line and
//! the lines before it.

use jiff::Timestamp;

use crate::concurrent::SideBySide;
use gpuctl_cluster::{Connection, Failure, LogQuery};
use gpuctl_core::model::Pod;
use gpuctl_core::stats::logs::first_error::{LogError, LogScan, earliest};

/// Logs read concurrently.
const MAX_CONCURRENT: usize = 16;
/// Number of last lines to read of each rank when the query has no start time.
const LOOKED_AT: u32 = 20_000;

/// The earliest error of a job.
#[derive(Debug)]
pub(crate) struct FirstError {
    pub pod: Pod,
    pub error: LogError,
    /// Other pods whose first error is the same.
    pub same: usize,
    /// Other pods whose first error is different.
    pub others: usize,
}

/// Findings in the logs of some pods.
#[derive(Debug, Default)]
pub(crate) struct LogsRead {
    pub first: Option<FirstError>,
    pub read: usize,
    /// Time of the last line about a saved checkpoint.
    pub checkpoint: Option<Timestamp>,
    /// Pods whose log could not be read, with the reason.
    pub unread: Vec<(String, Failure)>,
}

pub(crate) async fn first_error(
    connection: &Connection,
    namespace: &str,
    pods: &[Pod],
    query: &LogQuery,
) -> LogsRead {
    // A start time already limits how much is read.
    let tail = if query.since.is_some() {
        None
    } else {
        Some(LOOKED_AT)
    };
    let query = LogQuery {
        tail,
        ..query.clone()
    };
    let reads = pods.iter().map(|pod| {
        let query = &query;
        async move {
            let mut scan = LogScan::default();
            let take = |line: gpuctl_cluster::LogLine| scan.take(line.at, &line.text);
            let read = connection
                .logs()
                .scan(namespace, &pod.name, query, take)
                .await;
            read.map(|()| scan.finish())
        }
    });
    let answers = SideBySide::new(reads, MAX_CONCURRENT).all().await;
    let (mut found, mut errors) = (LogsRead::default(), Vec::new());
    let mut whose = Vec::new();
    for (pod, answer) in pods.iter().zip(answers) {
        match answer {
            Ok(log) => {
                found.read += 1;
                found.checkpoint = found.checkpoint.max(log.checkpoint);
                if let Some(error) = log.error {
                    whose.push(pod);
                    errors.push(error);
                }
            }
            Err(failure) => found.unread.push((pod.name.clone(), failure)),
        }
    }
    if let Some((first, same)) = earliest(&errors) {
        let others = errors.len() - 1 - same;
        found.first = Some(FirstError {
            pod: whose[first].clone(),
            error: errors.swap_remove(first),
            same,
            others,
        });
    }
    found
}
