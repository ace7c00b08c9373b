//! Reads container logs once, or follows them across disconnects without losing or repeating a line.
//!
//! Note: the kubelet resumes by whole seconds, so lines of the last second are recognized by their timestamps.

use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body;

use super::http::with_query;
use super::path::{self, Destination};
use super::retry::{self, TryOutcome};
use super::{Connection, Failure};
use crate::model::{Job, Pod, PodPhase};

/// The longest time that an error waits for the last lines of the log.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(2);

/// A longer line is cut.
const LONGEST_LINE: usize = 1 << 20;

/// One line and when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogLine {
    /// `None` when the runtime wrote no time.
    pub at: Option<Timestamp>,
    pub text: String,
}

/// Which lines of a container are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogQuery {
    pub container: String,
    pub tail: Option<u32>,
    pub since: Option<Duration>,
    /// Of the container's run before its last restart.
    pub previous: bool,
}

/// What has been read of one container's log: enough to go on after a disconnect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Follower {
    last: Option<Timestamp>,
    /// Lines with exactly that time that were taken.
    at_last: usize,
    /// Lines with exactly that time still to skip after a resume.
    skip: usize,
    resuming: bool,
}

impl Follower {
    /// Returns the second to resume from.
    pub(super) fn since(&self) -> Option<String> {
        self.last.map(|last| format!("{:.0}", Timestamp::from_second(last.as_second()).unwrap_or(last)))
    }

    /// Prepares for a further connection; call it before each.
    pub(super) fn resume(&mut self) {
        self.resuming = self.last.is_some();
        self.skip = self.at_last;
    }

    /// Returns true when `line` is new.
    pub(super) fn take(&mut self, line: &LogLine) -> bool {
        let Some(at) = line.at else { return true };
        if self.resuming {
            match Some(at).cmp(&self.last) {
                std::cmp::Ordering::Less => return false,
                std::cmp::Ordering::Equal if self.skip > 0 => {
                    self.skip -= 1;
                    return false;
                }
                _ => self.resuming = false,
            }
        }
        if self.last == Some(at) {
            self.at_last += 1;
        } else {
            (self.last, self.at_last) = (Some(at), 1);
        }
        true
    }
}

/// Cuts what arrives in pieces into lines.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    /// The beginning of a line whose end has not come.
    pub(super) pending: Vec<u8>,
}

impl LineSplitter {
    /// Takes a piece; each line that ends in it goes to `sink`, without its end.
    pub(super) fn take(&mut self, piece: &[u8], mut sink: impl FnMut(&[u8])) {
        let before = self.pending.len();
        self.pending.extend_from_slice(piece);
        let (mut start, mut from) = (0, before);
        while let Some(end) = self.pending[from..].iter().position(|byte| *byte == b'\n') {
            sink(&self.pending[start..from + end]);
            start = from + end + 1;
            from = start;
        }
        self.pending.drain(..start);
        // The rest of a line that is too long is not kept until it ends.
        if self.pending.len() > 2 * LONGEST_LINE {
            self.pending.truncate(LONGEST_LINE);
        }
    }
}

pub(super) fn line(bytes: &[u8]) -> LogLine {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_LINE)]);
    let split = text.split_once(' ').and_then(|(time, rest)| Some((time.parse::<Timestamp>().ok()?, rest)));
    match split {
        Some((at, rest)) => LogLine { at: Some(at), text: rest.to_owned() },
        None => LogLine { at: None, text: text.into_owned() },
    }
}

impl Connection {
    fn log_path(namespace: &str, pod: &str, query: &LogQuery, follow: bool, since: Option<&str>) -> String {
        let mut parameters = vec![("container", query.container.clone()), ("timestamps", "true".to_owned())];
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
                parameters.extend(query.since.map(|since| ("sinceSeconds", since.as_secs().max(1).to_string())));
            }
        }
        let borrowed: Vec<(&str, &str)> = parameters.iter().map(|(key, value)| (*key, value.as_str())).collect();
        with_query(&format!("/api/v1/namespaces/{namespace}/pods/{pod}/log"), &borrowed)
    }

    /// Returns the last lines of the pod that failed first, or that does not start; none where they cannot be had at once.
    pub(crate) async fn last_lines(&self, job: &Job, count: u32) -> Vec<String> {
        let mut pods = job.current_pods();
        pods.sort_by_key(|pod| (pod.phase != PodPhase::Failed, pod.ended_at.is_none(), pod.ended_at));
        let restarts = |pod: &&&Pod| pod.containers.iter().any(|container| container.restarts > 0);
        let pod = pods.iter().find(|pod| pod.phase == PodPhase::Failed).or_else(|| pods.iter().find(restarts));
        let Some(pod) = pod else { return Vec::new() };
        let query = LogQuery { container: pod.own_container().to_owned(), tail: Some(count), ..LogQuery::default() };
        let read = tokio::time::timeout(LAST_LINES_WITHIN, self.log(&job.namespace, &pod.name, &query)).await;
        let lines = read.ok().and_then(Result::ok).unwrap_or_default();
        lines.into_iter().map(|line| line.text).filter(|line| !line.trim().is_empty()).collect()
    }

    /// Returns the lines that are there now.
    pub(crate) async fn log(&self, namespace: &str, pod: &str, query: &LogQuery) -> Result<Vec<LogLine>, Failure> {
        let path = Self::log_path(namespace, pod, query, false, None);
        let (mut tries, mut waited) = (0, Duration::ZERO);
        loop {
            tries += 1;
            let mut lines = Vec::new();
            let read =
                tokio::time::timeout(self.request_timeout, self.stream(&path, true, |bytes| lines.push(line(bytes)))).await;
            let failure = match read {
                Ok(Ok(())) => return Ok(lines),
                Ok(Err(failure)) => failure,
                Err(_) => return Err(Failure::TimedOut { server: self.server.clone(), seconds: self.request_timeout.as_secs() }),
            };
            let Some(wait) = retry::wait(TryOutcome::of(&failure), tries, waited) else { return Err(failure) };
            waited += wait;
            tokio::time::sleep(wait).await;
        }
    }

    /// Goes on with a log from where `follower` stands; each new line goes to `sink`. With `follow` it reads until the
    /// connection ends, else what is there now.
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

    /// Reads lines. `whole` takes a last line without its end too; in a followed log the rest may still come.
    pub(super) async fn stream(&self, path: &str, whole: bool, mut sink: impl FnMut(&[u8])) -> Result<(), Failure> {
        path::check(path, Destination::ApiServer)?;
        let request = Request::builder().method(Method::GET).uri(path).body(Body::empty());
        let request = request.map_err(|_| Failure::no_path(path))?;
        let used = self.clients.borrow().since;
        let client = if whole { self.clients.borrow().requests.clone() } else { self.clients.borrow().streams.clone() };
        let response = client.send(request).await.map_err(|error| self.unreachable(&error))?;
        let code = response.status().as_u16();
        // A pod without a node has no log, and that is no error.
        if code == 204 {
            return Ok(());
        }
        let mut body = response.into_body();
        if code == 401 && self.renew(used).await? {
            return Err(Failure::Unreachable { server: self.server.clone(), cause: "the credentials had expired".to_owned() });
        }
        if code != 200 {
            let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            return Err(self.failure(code, "", &bytes));
        }
        let mut lines = LineSplitter::default();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                let cause = "the log stream broke off".to_owned();
                return Err(Failure::Unreachable { server: self.server.clone(), cause });
            };
            if let Ok(data) = frame.into_data() {
                lines.take(&data, &mut sink);
            }
        }
        if whole && !lines.pending.is_empty() {
            sink(&lines.pending);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn a_line_has_a_time_and_a_text() {
        let read = line(b"2026-01-01T00:00:00.000000001Z a b ");
        assert_eq!(read.text, "a b ");
        assert_eq!(read.at.unwrap().subsec_nanosecond(), 1);
        assert_eq!(line(b"no time here"), LogLine { at: None, text: "no time here".into() });
    }

    proptest! {
        /// However the connection breaks, the lines that come out are the lines that went in.
        #[test]
        fn no_line_is_lost_or_repeated(steps in prop::collection::vec(0_i64..700, 1..60), breaks in prop::collection::vec(0_usize..60, 0..8)) {
            let mut time = 1_000;
            let lines: Vec<LogLine> = steps.iter().enumerate().map(|(index, step)| {
                time += step / 100 * 100;
                LogLine { at: Some(at(time)), text: index.to_string() }
            }).collect();
            let mut follower = Follower::default();
            let mut seen = Vec::new();
            let mut ends: Vec<usize> = breaks.iter().map(|end| end % (lines.len() + 1)).chain([lines.len()]).collect();
            ends.sort_unstable();
            for end in ends {
                follower.resume();
                let from = follower.since().map(|since| since.parse::<Timestamp>().unwrap());
                for line in lines[..end].iter().filter(|line| from.is_none_or(|from| line.at.unwrap() >= from)) {
                    if follower.take(line) {
                        seen.push(line.text.clone());
                    }
                }
            }
            prop_assert_eq!(seen, lines.into_iter().map(|line| line.text).collect::<Vec<_>>());
        }
    }
}
