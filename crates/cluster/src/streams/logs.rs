//! Reads container logs once, or follows them across disconnects without losing or repeating a
//! line.

use std::ops::ControlFlow;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;

use super::follower::Follower;
use super::log_lines::{
    LONGEST_LINE, LineSplitter, LogLine, LogLines, MOST_BYTES, NewestLines, line,
};
use crate::transport::http::with_query;
use crate::transport::path;
use crate::transport::path::Destination;
use crate::transport::retry;
use crate::transport::retry::TryOutcome;
use crate::{Connection, Failure};
use gpuctl_core::model::{Job, Pod, PodPhase};

/// The longest time that an error waits for the last lines of the log.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(2);

/// Estimated bytes of a line when the query limits the number of lines. Container runtimes split
/// lines at 16 KiB.
const USUAL_LINE: usize = 16 << 10;
/// Number of lines to keep when the query has no `tail`.
const MOST_LINES: usize = 1 << 20;
/// Bytes of a line, on average, of a log whose newest lines are wanted. Programs that print longer
/// ones exist, and get a warning.
const AVERAGE_LINE: usize = 4 << 10;
/// Lines beyond `tail` that gpuctl reads. The kubelet finds the first of the last lines and reads
/// to the end of the file, so it also sends lines written meanwhile.
const SURPLUS: usize = 1000;
/// Read limit for an error response in bytes.
const REFUSAL: usize = 64 << 10;

/// Which lines of a container are wanted.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    pub container: String,
    pub tail: Option<u32>,
    pub since: Option<Duration>,
    /// Of the container's run before its last restart.
    pub previous: bool,
    /// Limit on kept bytes when several logs share the memory. Defaults to `MOST_BYTES`.
    pub most_bytes: Option<usize>,
}

impl LogQuery {
    /// Returns the query for a log that is read from its beginning.
    pub(super) fn whole_log(&self) -> Self {
        Self {
            tail: None,
            since: None,
            ..self.clone()
        }
    }

    /// Limit on the bytes kept from the log.
    fn most_bytes(&self) -> usize {
        let usual = self.tail.map_or(MOST_BYTES, |tail| {
            (tail as usize).saturating_mul(USUAL_LINE)
        });
        usual
            .max(2 * LONGEST_LINE)
            .min(self.most_bytes.unwrap_or(MOST_BYTES))
    }
}

/// How a log stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    Complete,
    /// The reader stopped.
    Enough,
    /// The limit on bytes was reached.
    TooLong,
}

impl Connection {
    fn log_path(
        namespace: &str,
        pod: &str,
        query: &LogQuery,
        follow: bool,
        since: Option<&str>,
    ) -> String {
        let mut parameters = vec![
            ("container", query.container.clone()),
            ("timestamps", "true".to_owned()),
        ];
        if follow {
            parameters.push(("follow", "true".to_owned()));
        }
        if query.previous {
            parameters.push(("previous", "true".to_owned()));
        }
        match since {
            Some(since) => parameters.push(("sinceTime", since.to_owned())),
            None => {
                parameters.extend(query.tail.map(|tail| ("tailLines", tail.to_string())));
                parameters.extend(
                    query
                        .since
                        .map(|since| ("sinceSeconds", since.as_secs().max(1).to_string())),
                );
            }
        }
        let borrowed: Vec<(&str, &str)> = parameters
            .iter()
            .map(|(key, value)| (*key, value.as_str()))
            .collect();
        with_query(
            &format!("/api/v1/namespaces/{namespace}/pods/{pod}/log"),
            &borrowed,
        )
    }

    /// Returns the last lines of the pod that failed first, or that does not start; none where they
    /// cannot be had at once.
    pub async fn last_lines(&self, job: &Job, count: u32) -> Vec<String> {
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
        let read = tokio::time::timeout(
            LAST_LINES_WITHIN,
            self.log(&job.namespace, &pod.name, &query),
        )
        .await;
        let read = read.ok().and_then(Result::ok).unwrap_or_default();
        read.lines
            .into_iter()
            .map(|line| line.text)
            .filter(|line| !line.trim().is_empty())
            .collect()
    }

    /// Reads a log once.
    pub async fn log(
        &self,
        namespace: &str,
        pod: &str,
        query: &LogQuery,
    ) -> Result<LogLines, Failure> {
        self.matching_log(namespace, pod, query, MOST_LINES, |_| true)
            .await
    }

    /// Reads a log once and keeps the newest `most` lines that match, at most the query's `tail`.
    /// Stops when the server sends many more lines or bytes than `tail` lines can have.
    pub async fn matching_log(
        &self,
        namespace: &str,
        pod: &str,
        query: &LogQuery,
        most: usize,
        matches: impl Fn(&LogLine) -> bool,
    ) -> Result<LogLines, Failure> {
        let path = Self::log_path(namespace, pod, query, false, None);
        let wanted = query.tail.map_or(usize::MAX, |tail| tail as usize);
        // Reading fewer bytes would lose the newest lines. The request timeout bounds the time.
        let limit = wanted.saturating_mul(AVERAGE_LINE).max(MOST_BYTES);
        let (mut tries, mut waited) = (0, Duration::ZERO);
        loop {
            tries += 1;
            let (mut kept, mut count) = (
                NewestLines::new(most.min(wanted), query.most_bytes()),
                0_usize,
            );
            let take = |bytes: &[u8]| {
                count += 1;
                if count > wanted.saturating_add(SURPLUS) {
                    return ControlFlow::Break(());
                }
                let line = line(bytes);
                if matches(&line) {
                    kept.push(line);
                }
                ControlFlow::Continue(())
            };
            let read = tokio::time::timeout(
                self.request_timeout,
                self.stream_some(&path, true, limit, take),
            )
            .await;
            let failure = match read {
                Ok(Ok(end)) => {
                    let has_surplus = end != StreamEnd::Complete;
                    return Ok(LogLines {
                        lines: kept.lines.into(),
                        is_cut: kept.is_cut,
                        has_surplus,
                    });
                }
                Ok(Err(failure)) => failure,
                Err(_) => {
                    return Err(Failure::TimedOut {
                        server: self.server.clone(),
                        seconds: self.request_timeout.as_secs(),
                    });
                }
            };
            let Some(wait) = retry::wait(TryOutcome::of(&failure), tries, waited) else {
                return Err(failure);
            };
            waited += wait;
            tokio::time::sleep(wait).await;
        }
    }

    /// Passes the current lines to `sink`, within the limits on bytes and time for one log.
    pub async fn scan_log(
        &self,
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
            self.request_timeout,
            self.stream_some(&path, true, MOST_BYTES, take),
        )
        .await
        {
            Ok(read) => read.map(|_| ()),
            Err(_) => Err(Failure::TimedOut {
                server: self.server.clone(),
                seconds: self.request_timeout.as_secs(),
            }),
        }
    }

    /// Goes on with a log from where `follower` stands; each new line goes to `sink`. With `follow`
    /// it reads until the connection ends, else what is there now.
    pub(crate) async fn resume_log(
        &self,
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
        self.stream(&path, !follow, |bytes| {
            let line = line(bytes);
            if follower.take(&line) {
                sink(line);
            }
        })
        .await
    }

    /// Reads lines. `whole` takes a last line without its end too; in a followed log the rest may
    /// still come.
    pub(crate) async fn stream(
        &self,
        path: &str,
        whole: bool,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), Failure> {
        let take = |line: &[u8]| {
            sink(line);
            ControlFlow::Continue(())
        };
        self.stream_some(path, whole, usize::MAX, take)
            .await
            .map(|_| ())
    }

    /// Requests a log. Returns its body, or `None` for a pod that has no log.
    async fn open_log(&self, path: &str, whole: bool) -> Result<Option<Body>, Failure> {
        path::check(path, Destination::ApiServer)?;
        let request = Request::builder()
            .method(Method::GET)
            .uri(path)
            .body(Body::empty());
        let request = request.map_err(|_| Failure::no_path(path))?;
        let used = self.clients.borrow().since;
        let client = if whole {
            self.clients.borrow().requests.clone()
        } else {
            self.clients.borrow().streams.clone()
        };
        let response = client
            .send(request)
            .await
            .map_err(|error| self.unreachable(&error))?;
        let code = response.status().as_u16();
        // A pod without a node has no log, and that is no error.
        if code == 204 {
            return Ok(None);
        }
        let mut body = response.into_body();
        if code == 401 && self.renew(used).await? {
            return Err(Failure::Unreachable {
                server: self.server.clone(),
                cause: "the credentials had expired".to_owned(),
            });
        }
        if code != 200 {
            return Err(self.failure(code, "", &beginning(&mut body).await));
        }
        Ok(Some(body))
    }

    /// Reads lines until `sink` stops or `limit` bytes have arrived.
    pub(crate) async fn stream_some(
        &self,
        path: &str,
        whole: bool,
        limit: usize,
        mut sink: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<StreamEnd, Failure> {
        let Some(mut body) = self.open_log(path, whole).await? else {
            return Ok(StreamEnd::Complete);
        };
        let (mut lines, mut bytes, mut end) =
            (LineSplitter::default(), 0_usize, StreamEnd::Complete);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                let cause = "the log stream broke off".to_owned();
                return Err(Failure::Unreachable {
                    server: self.server.clone(),
                    cause,
                });
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            bytes = bytes.saturating_add(data.len());
            lines.take(&data, |line| {
                if end == StreamEnd::Complete && sink(line).is_break() {
                    end = StreamEnd::Enough;
                }
            });
            if end == StreamEnd::Complete && bytes > limit {
                end = StreamEnd::TooLong;
            }
            if end != StreamEnd::Complete {
                return Ok(end);
            }
            // A server that is always faster than this loop must not starve signals and deadlines.
            tokio::task::yield_now().await;
        }
        if whole && !lines.pending.is_empty() {
            let _ = sink(&lines.pending);
        }
        Ok(StreamEnd::Complete)
    }
}

/// Reads the beginning of an error response.
async fn beginning(body: &mut Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > REFUSAL {
            break;
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
