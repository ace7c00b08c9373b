//! Reads container logs once, or follows them across disconnects without losing or repeating a
//! line.

use std::ops::ControlFlow;
use std::time::Duration;

use super::follower::Follower;
use super::log_lines::{LONGEST_LINE, LogLine, LogLines, MOST_BYTES, NewestLines, line};
use crate::transport::http::with_query;
use crate::transport::retry;
use crate::transport::retry::TryOutcome;
use crate::transport::stream::StreamEnd;
use crate::{Failure, handles::LogsApi};
use gpuctl_core::model::{Job, Pod, PodPhase};

/// How long an error message is delayed to read the last lines of a log.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(2);

/// Estimated size of a line in bytes if the query limits the number of lines. Container runtimes
/// split lines at 16 KiB.
const USUAL_LINE: usize = 16 << 10;
/// Number of lines to keep if the query has no `tail`.
const MOST_LINES: usize = 1 << 20;
/// Assumed average size of a line in bytes if the query limits the number of lines. Logs with
/// longer lines cause a warning.
const AVERAGE_LINE: usize = 4 << 10;
/// Number of lines that gpuctl reads beyond `tail`. The kubelet first finds the beginning of the
/// last lines and then reads to the end of the file, so it also sends lines that were written in
/// between.
const SURPLUS: usize = 1000;

/// Selects lines from a container's log.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    pub container: String,
    pub tail: Option<u32>,
    pub since: Option<Duration>,
    /// Reads the log of the run before the container's last restart.
    pub previous: bool,
    /// Number of bytes to read from the start of the log.
    pub head_bytes: Option<usize>,
    /// Maximum number of bytes to keep, for logs that share memory. Defaults to `MOST_BYTES`.
    pub most_bytes: Option<usize>,
}

impl LogQuery {
    /// Returns the same query without a start or a `tail`.
    pub(super) fn whole_log(&self) -> Self {
        Self {
            tail: None,
            since: None,
            ..self.clone()
        }
    }

    /// Returns the maximum number of bytes to keep.
    fn most_bytes(&self) -> usize {
        let default = self.tail.map_or(MOST_BYTES, |tail| {
            (tail as usize).saturating_mul(USUAL_LINE)
        });
        default
            .max(2 * LONGEST_LINE)
            .min(self.most_bytes.unwrap_or(MOST_BYTES))
    }
}

impl LogsApi<'_> {
    fn log_path(
        namespace: &str,
        pod: &str,
        query: &LogQuery,
        follow: bool,
        since: Option<&str>,
    ) -> String {
        let mut parameters = vec![
            ("container", query.container.clone()),
            // Request timestamps, which are needed to resume after a disconnect.
            ("timestamps", "true".to_owned()),
        ];
        if follow {
            parameters.push(("follow", "true".to_owned()));
        }
        if query.previous {
            parameters.push(("previous", "true".to_owned()));
        }
        if let Some(bytes) = query.head_bytes {
            parameters.push(("limitBytes", bytes.to_string()));
        }
        // The API server rejects `sinceTime` together with `sinceSeconds`.
        match since {
            Some(since) => parameters.push(("sinceTime", since.to_owned())),
            None => {
                parameters.extend(query.tail.map(|tail| ("tailLines", tail.to_string())));
                parameters.extend(
                    query
                        .since
                        // Request at least one second, because the API server rejects 0.
                        .map(|since| ("sinceSeconds", since.as_secs().max(1).to_string())),
                );
            }
        }
        let parameter_refs: Vec<(&str, &str)> = parameters
            .iter()
            .map(|(key, value)| (*key, value.as_str()))
            .collect();
        with_query(
            &format!("/api/v1/namespaces/{namespace}/pods/{pod}/log"),
            &parameter_refs,
        )
    }

    /// Reads the last lines of the first pod that failed or does not start. Returns no lines if the
    /// log does not arrive in time.
    pub async fn last_lines(self, job: &Job, count: u32) -> Vec<String> {
        let mut pods = job.current_pods();
        pods.sort_by_key(|pod| {
            (
                pod.phase != PodPhase::Failed,
                pod.ended_at.is_none(),
                pod.ended_at,
            )
        });
        let restarts = |pod: &&&Pod| {
            pod.containers
                .iter()
                .any(|container| container.restarts > 0)
        };
        let pod = pods
            .iter()
            .find(|pod| pod.phase == PodPhase::Failed)
            .or_else(|| pods.iter().find(restarts));
        let Some(pod) = pod else { return Vec::new() };
        let query = LogQuery {
            container: pod.own_container().to_owned(),
            tail: Some(count),
            ..LogQuery::default()
        };
        let result = tokio::time::timeout(
            LAST_LINES_WITHIN,
            self.read(&job.namespace, &pod.name, &query),
        )
        .await;
        let log = result.ok().and_then(Result::ok).unwrap_or_default();
        log.lines
            .into_iter()
            .map(|line| line.text)
            .filter(|line| !line.trim().is_empty())
            .collect()
    }

    pub async fn read(
        self,
        namespace: &str,
        pod: &str,
        query: &LogQuery,
    ) -> Result<LogLines, Failure> {
        self.matching(namespace, pod, query, MOST_LINES, |_| true)
            .await
    }

    /// Reads a log once and keeps the newest matching lines, at most `limit` and the query's
    /// `tail`. Stops if the server sends far more lines or bytes than `tail` lines should have.
    pub async fn matching(
        self,
        namespace: &str,
        pod: &str,
        query: &LogQuery,
        limit: usize,
        matches: impl Fn(&LogLine) -> bool,
    ) -> Result<LogLines, Failure> {
        let path = Self::log_path(namespace, pod, query, false, None);
        let tail = query.tail.map_or(usize::MAX, |tail| tail as usize);
        // Read at least `MOST_BYTES`. The newest lines come last, so a lower limit would lose them.
        // The request timeout bounds the duration.
        let byte_limit = tail.saturating_mul(AVERAGE_LINE).max(MOST_BYTES);
        let (mut tries, mut waited) = (0, Duration::ZERO);
        loop {
            tries += 1;
            let (mut newest, mut count) = (
                NewestLines::new(limit.min(tail), query.most_bytes()),
                0_usize,
            );
            let take = |bytes: &[u8]| {
                count += 1;
                if count > tail.saturating_add(SURPLUS) {
                    return ControlFlow::Break(());
                }
                let line = line(bytes);
                if matches(&line) {
                    newest.push(line);
                }
                ControlFlow::Continue(())
            };
            let result = tokio::time::timeout(
                self.0.request_timeout,
                self.0.stream_some(&path, true, byte_limit, take),
            )
            .await;
            let failure = match result {
                Ok(Ok(end)) => {
                    let has_surplus = end != StreamEnd::Complete;
                    return Ok(LogLines {
                        lines: newest.lines.into(),
                        is_cut: newest.is_cut,
                        has_surplus,
                    });
                }
                Ok(Err(failure)) => failure,
                Err(_) => {
                    return Err(Failure::TimedOut {
                        server: self.0.server.clone(),
                        seconds: self.0.request_timeout.as_secs(),
                    });
                }
            };
            let Some(pause) = retry::wait(TryOutcome::from_failure(&failure), tries, waited) else {
                return Err(failure);
            };
            waited += pause;
            tokio::time::sleep(pause).await;
        }
    }

    /// Passes each line of the current log to `sink`, within the size and time limits for one log.
    pub async fn scan(
        self,
        namespace: &str,
        pod: &str,
        query: &LogQuery,
        mut sink: impl FnMut(LogLine),
    ) -> Result<(), Failure> {
        let path = Self::log_path(namespace, pod, query, false, None);
        let take = |bytes: &[u8]| {
            sink(line(bytes));
            ControlFlow::Continue(())
        };
        match tokio::time::timeout(
            self.0.request_timeout,
            self.0.stream_some(&path, true, MOST_BYTES, take),
        )
        .await
        {
            Ok(result) => result.map(|_| ()),
            Err(_) => Err(Failure::TimedOut {
                server: self.0.server.clone(),
                seconds: self.0.request_timeout.as_secs(),
            }),
        }
    }

    /// Continues a log at the position of `follower` and passes each new line to `sink`. With
    /// `follow`, reads until the connection ends, otherwise until the end of the log.
    pub(crate) async fn resume(
        self,
        namespace: &str,
        pod: &str,
        query: &LogQuery,
        follow: bool,
        follower: &mut Follower,
        mut sink: impl FnMut(LogLine),
    ) -> Result<(), Failure> {
        follower.resume();
        let since = follower.since();
        let path = Self::log_path(namespace, pod, query, follow, since.as_deref());
        self.0
            .stream(&path, !follow, |bytes| {
                let line = line(bytes);
                if follower.take(&line) {
                    sink(line);
                }
            })
            .await
    }
}

#[cfg(test)]
mod tests;
