//! Reads responses line by line: logs and watches.

use std::ops::ControlFlow;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;

use super::failure::Failure;
use super::path::{self, Destination};
use crate::Connection;
use crate::streams::log_lines::LineSplitter;
use gpuctl_local::request_log::{Api, SentRequest};

/// Maximum number of bytes read from an error response.
const REFUSAL: usize = 64 << 10;

/// How a log stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    Complete,
    /// The sink stopped reading.
    Enough,
    /// The size limit was reached.
    TooLong,
}

impl Connection {
    /// Reads lines. With `finite`, accepts a last line without a line break, whose rest may still
    /// arrive in a followed log.
    pub(crate) async fn stream(
        &self,
        path: &str,
        finite: bool,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), Failure> {
        let take = |line: &[u8]| {
            sink(line);
            ControlFlow::Continue(())
        };
        self.stream_some(path, finite, usize::MAX, take)
            .await
            .map(|_| ())
    }

    /// Requests a log, and returns its body, or `None` for a pod without a log.
    async fn open_log(&self, path: &str, finite: bool) -> Result<Option<Body>, Failure> {
        path::check(path, Destination::ApiServer)?;
        let request = Request::builder()
            .method(Method::GET)
            .uri(path)
            .body(Body::empty());
        let request = request.map_err(|_| Failure::no_path(path))?;
        let client_since = self.clients.borrow().since;
        let client = if finite {
            self.clients.borrow().requests.clone()
        } else {
            self.clients.borrow().streams.clone()
        };
        let sent = SentRequest::start(Api::Kubernetes, Method::GET.as_str(), path);
        let response = match client.send(request).await {
            Ok(response) => response,
            Err(error) => {
                let failure = self.unreachable(&error);
                sent.failed(&failure.to_string());
                return Err(failure);
            }
        };
        let code = response.status().as_u16();
        sent.opened(code);
        // A pod without a node has no log, and the API server answers 204 (`LogLocation` in
        // pkg/registry/core/pod/strategy.go).
        if code == 204 {
            return Ok(None);
        }
        let mut body = response.into_body();
        if code == 401 && self.renew(client_since).await? {
            // Return a transient failure, so that callers that follow a log retry with the new
            // credentials.
            return Err(Failure::Unreachable {
                server: self.server.clone(),
                cause: "the credentials expired".to_owned(),
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
        finite: bool,
        limit: usize,
        mut sink: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<StreamEnd, Failure> {
        let Some(mut body) = self.open_log(path, finite).await? else {
            return Ok(StreamEnd::Complete);
        };
        let (mut lines, mut bytes, mut end) =
            (LineSplitter::default(), 0_usize, StreamEnd::Complete);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                let cause = "the stream was interrupted".to_owned();
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
            // Yield, so that a server that is always faster than this loop does not delay the
            // handling of signals and deadlines.
            tokio::task::yield_now().await;
        }
        if finite && !lines.pending.is_empty() {
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
