//! Reads the logs of all ranks, several at a time, and finds the first error of all. Nothing but
//! the lines before it is kept.

use jiff::Timestamp;

use crate::concurrent::SideBySide;
use gpuctl_cluster::{Connection, Failure, LogQuery};
use gpuctl_core::model::Pod;
use gpuctl_core::stats::logs::first_error::{LogError, LogScan, earliest};

/// Logs that are read at the same time.
const AT_ONCE: usize = 16;
/// Last lines of each rank that are looked at, unless a time says how far back.
const LOOKED_AT: u32 = 20_000;

/// The first error of a job.
#[derive(Debug)]
pub(crate) struct FirstError {
    pub pod: Pod,
    pub error: LogError,
    /// Other pods whose first error is the same.
    pub same: usize,
    /// Other pods with an error of their own.
    pub others: usize,
}

/// What was found in the logs of some pods.
#[derive(Debug, Default)]
pub(crate) struct LogsRead {
    pub first: Option<FirstError>,
    pub read: usize,
    /// When the last line was written that tells of a saved checkpoint.
    pub checkpoint: Option<Timestamp>,
    /// Pods whose log could not be had, and why.
    pub unread: Vec<(String, Failure)>,
}

/// Reads the logs of these pods.
pub(crate) async fn first_error(
    connection: &Connection,
    namespace: &str,
    pods: &[Pod],
    query: &LogQuery,
) -> LogsRead {
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
    let answers = SideBySide::new(reads, AT_ONCE).all().await;
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
