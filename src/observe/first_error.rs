//! Scans the logs of all ranks concurrently for the error that ended the rank that failed first. Keeps
//! only the error's line and the lines before it.

use jiff::Timestamp;

use crate::concurrent::OrderedConcurrent;
use gpuctl_cluster::{Connection, Failure, LogQuery};
use gpuctl_core::model::Pod;
use gpuctl_core::stats::logs::first_error::{LogError, LogScan, earliest};
use gpuctl_diagnosis::is_lost_log;

/// Number of logs to read concurrently.
const MAX_CONCURRENT: usize = 16;
/// Number of lines to read from the end of each log if the query has no start time.
const TAIL_LINES: u32 = 20_000;

/// The earliest error of a job.
#[derive(Debug)]
pub(crate) struct FirstError {
    pub pod: Pod,
    pub error: LogError,
    /// Number of other pods whose first error is the same.
    pub same: usize,
    /// Number of other pods whose first error is different.
    pub others: usize,
}

/// Findings from the logs of several pods.
#[derive(Debug, Default)]
pub(crate) struct PodLogFindings {
    pub first: Option<FirstError>,
    pub read: usize,
    /// Time of the last line that reports a saved checkpoint.
    pub checkpoint: Option<Timestamp>,
    /// Pods whose logs could not be read, with the reasons.
    pub unread: Vec<(String, Failure)>,
    /// Pods whose logs their nodes no longer have, with the kubelets' notes.
    pub lost: Vec<(String, String)>,
}

pub(crate) async fn first_error(
    connection: &Connection,
    namespace: &str,
    pods: &[Pod],
    query: &LogQuery,
) -> PodLogFindings {
    // A start time already limits the amount of data.
    let tail = if query.since.is_some() {
        None
    } else {
        Some(TAIL_LINES)
    };
    let query = LogQuery {
        tail,
        ..query.clone()
    };
    let reads = pods.iter().map(|pod| {
        let query = &query;
        async move {
            let mut scan = LogScan::default();
            let mut lost = None;
            let scan_line = |line: gpuctl_cluster::LogLine| {
                if is_lost_log(&line.text) {
                    lost = Some(line.text);
                } else {
                    scan.take(line.at, &line.text);
                }
            };
            let result = connection
                .logs()
                .scan(namespace, &pod.name, query, scan_line)
                .await;
            result.map(|()| (scan.finish(), lost))
        }
    });
    let results = OrderedConcurrent::new(reads, MAX_CONCURRENT).all().await;
    let (mut findings, mut errors) = (PodLogFindings::default(), Vec::new());
    let mut pods_with_errors = Vec::new();
    for (pod, result) in pods.iter().zip(results) {
        match result {
            Ok((_, Some(note))) => findings.lost.push((pod.name.clone(), note)),
            Ok((log, None)) => {
                findings.read += 1;
                findings.checkpoint = findings.checkpoint.max(log.checkpoint);
                if let Some(error) = log.error {
                    pods_with_errors.push(pod);
                    errors.push(error);
                }
            }
            Err(failure) => findings.unread.push((pod.name.clone(), failure)),
        }
    }
    if let Some((first, same)) = earliest(&errors) {
        let others = errors.len() - 1 - same;
        findings.first = Some(FirstError {
            pod: pods_with_errors[first].clone(),
            error: errors.swap_remove(first),
            same,
            others,
        });
    }
    findings
}
