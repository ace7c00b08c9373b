//! A client for the Prometheus API. Sends queries directly or through a transport that the caller
//! supplies, and decodes the responses.
#![warn(unreachable_pub)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod address;
mod aws;
mod chunk;
mod decode;
#[cfg(any(test, feature = "testing"))]
mod encode;
mod error;
mod exact_names;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod matchers;
mod remote_read;
mod request;
mod samples;
mod separate;
mod token;
mod transport;

pub use address::{Credentials, PrometheusAddress};
pub use aws::AwsKeys;
pub use error::QueryError;
pub use matchers::Matchers;
#[cfg(any(test, feature = "testing"))]
pub use matchers::judge;
pub use remote_read::SampleRange;
pub use request::{FORM, HttpReply, QueryRequest, SendRequest};

use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::values::excerpt::{SERVER_MESSAGE, excerpt, shortened};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join;
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

use gpuctl_core::model::values::series::{Labels, Series};

use decode::Envelope;
use remote_read::{ChunkTrust, ReadMethod};
use transport::{QueryTime, Transport};

/// A client of one Prometheus-compatible server.
pub struct Prometheus<'a> {
    transport: Transport<'a>,
    /// Name of the server in messages, without credentials.
    pub server: String,
    timeout: Duration,
    warnings: RefCell<BTreeSet<String>>,
    /// Label matchers that restrict every query to one cluster.
    matchers: Matchers,
    /// True if the store returns staleness markers as samples; `None` until tested.
    keeps_marks: Cell<Option<bool>>,
    /// True if the store rejects regex matchers on metric names.
    requires_exact_names: bool,
    /// Metric names of the store, read for the first query that needs them.
    names: OnceCell<Vec<String>>,
    /// Whether remote read may replace queries.
    chunks: ChunkTrust,
}

/// A time window with inclusive ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub start: UnixSeconds,
    pub end: UnixSeconds,
    /// Seconds between two points.
    pub step: i64,
}

/// Maximum displayed characters of a web page's title.
const TITLE: usize = 200;
/// Prometheus' limit on points per series in one range query.
const MOST_POINTS: i64 = 11_000;
/// Number of concurrent queries for one window or pattern.
const AT_ONCE: usize = 4;

impl Window {
    /// Splits the window so that each piece has at most `MOST_POINTS` points. A piece starts one
    /// step after the last point of the previous piece.
    fn pieces(self) -> Vec<Self> {
        let step = self.step.max(1);
        let mut pieces = Vec::new();
        let mut start = self.start;
        while start <= self.end {
            let end = (start + (MOST_POINTS - 1).saturating_mul(step)).min(self.end);
            pieces.push(Self { start, end, step });
            start = start + MOST_POINTS.saturating_mul(step);
            // Additions saturate, so `start` cannot pass the latest possible time.
            if start == UnixSeconds::NEVER {
                break;
            }
        }
        pieces
    }
}

impl<'a> Prometheus<'a> {
    /// Creates a client that sends requests to an address.
    pub fn direct(address: &PrometheusAddress, timeout: Duration) -> Result<Self, QueryError> {
        let transport = Transport::new(address)?;
        Ok(Self::new(transport, address.shown(), timeout))
    }

    /// Creates a client that sends requests through a function of the caller.
    pub fn with_sender(server: String, timeout: Duration, send: SendRequest<'a>) -> Self {
        Self::new(Transport::Custom(send), server, timeout)
    }

    fn new(transport: Transport<'a>, server: String, timeout: Duration) -> Self {
        Self {
            transport,
            server,
            timeout,
            warnings: RefCell::default(),
            matchers: Matchers::default(),
            keeps_marks: Cell::default(),
            requires_exact_names: false,
            names: OnceCell::new(),
            chunks: ChunkTrust::default(),
        }
    }

    /// Requests a path below the API and returns the response, whatever its status.
    pub async fn relay(&self, path: &str) -> Result<HttpReply, QueryError> {
        if self.requires_exact_names && exact_names::are_required(path) {
            let names = self.names.get_or_try_init(|| self.listed_names()).await?;
            return self
                .with_timeout(self.transport.relay(&exact_names::path(path, names)))
                .await;
        }
        self.with_timeout(self.transport.relay(path)).await
    }

    /// Queries every metric by its exact name, for stores that reject regex matchers on metric
    /// names.
    #[must_use]
    pub fn with_exact_names(self) -> Self {
        Self {
            requires_exact_names: true,
            ..self
        }
    }

    /// Restricts all queries to series with these labels.
    #[must_use]
    pub fn with_matchers(self, matchers: Matchers) -> Self {
        Self { matchers, ..self }
    }

    pub fn matchers(&self) -> &Matchers {
        &self.matchers
    }

    /// Returns true if the server sent warnings, so that responses may be partial.
    pub fn has_warned(&self) -> bool {
        !self.warnings.borrow().is_empty()
    }

    /// Removes and returns the server's warnings, without duplicates.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.borrow_mut())
            .into_iter()
            .collect()
    }

    /// Evaluates a query at the current time of the server's clock.
    pub async fn now(&self, query: &str) -> Result<Vec<Series>, QueryError> {
        self.query_all(query, QueryTime::Now).await
    }

    /// Evaluates a query at a given time. Range selectors return samples as they were scraped.
    pub async fn query_at(&self, query: &str, at: UnixSeconds) -> Result<Vec<Series>, QueryError> {
        self.without_marks(self.query_all(query, QueryTime::At(at)).await?)
            .await
    }

    /// Fetches samples as they were scraped, for callers that read many ranges. Uses remote read
    /// once it has returned the same samples as a query, and queries otherwise.
    pub async fn samples(&self, range: &SampleRange) -> Result<Vec<Series>, QueryError> {
        let by_query = || self.query_at(&range.query, range.end);
        if self.requires_exact_names {
            return by_query().await;
        }
        match self.chunks.next() {
            ReadMethod::Query => by_query().await,
            // Return the result of the query, because remote read may be incorrect.
            ReadMethod::Both => {
                let (queried, chunks) =
                    join(by_query(), self.chunks_of(range, &Labels::default())).await;
                self.chunks
                    .judge(queried.as_deref().unwrap_or_default(), chunks.as_deref());
                queried
            }
            ReadMethod::Chunks(added) => {
                if let Some(series) = self.chunks_of(range, &added).await {
                    return Ok(series);
                }
                self.chunks.refuse();
                by_query().await
            }
        }
    }

    /// Fetches samples by remote read, or returns `None` if the server does not support it.
    async fn chunks_of(&self, range: &SampleRange, added: &Labels) -> Option<Vec<Series>> {
        let request = self
            .transport
            .remote_read(remote_read::question(range, &self.matchers));
        let reply = self.with_timeout(request).await.ok()??;
        (reply.code == 200)
            .then(|| remote_read::series(&reply.media, &reply.body, range, added))
            .flatten()
    }

    /// Evaluates a query over a window of any length.
    pub async fn range(&self, query: &str, window: Window) -> Result<Vec<Series>, QueryError> {
        let pieces = stream::iter(window.pieces())
            .map(|piece| self.query_all(query, QueryTime::Within(piece)))
            .buffered(AT_ONCE);
        let pieces: Vec<Vec<Series>> = pieces.try_collect().await?;
        Ok(joined(pieces))
    }

    /// Runs a query, or one query per metric name if the store requires exact names.
    async fn query_all(&self, query: &str, time: QueryTime) -> Result<Vec<Series>, QueryError> {
        let query = self.matchers.narrowed(query);
        if !self.requires_exact_names || !exact_names::are_required(&query) {
            return self.query_once(&query, time).await;
        }
        let names = self.names.get_or_try_init(|| self.listed_names()).await?;
        let queries = stream::iter(exact_names::queries(&query, names));
        let answers = queries
            .map(async |query| self.query_once(&query, time).await)
            .buffered(AT_ONCE);
        Ok(exact_names::merged(answers.try_collect().await?))
    }

    async fn query_once(&self, query: &str, time: QueryTime) -> Result<Vec<Series>, QueryError> {
        self.read(&self.with_timeout(self.transport.send(query, time)).await?)
    }

    /// Lists the metric names of the store.
    async fn listed_names(&self) -> Result<Vec<String>, QueryError> {
        let reply = self
            .with_timeout(self.transport.relay("api/v1/label/__name__/values"))
            .await?;
        exact_names::listed(&reply).ok_or_else(|| {
            self.read(&reply)
                .err()
                .unwrap_or_else(|| QueryError::NotPrometheus {
                    server: self.server.clone(),
                    problem: "it lists no metric names".to_owned(),
                })
        })
    }

    /// Removes staleness markers. Prometheus omits them from range selectors, while VictoriaMetrics
    /// returns them as NaN.
    async fn without_marks(&self, mut answer: Vec<Series>) -> Result<Vec<Series>, QueryError> {
        // Staleness markers are NaN, so most responses need no further request.
        if !answer
            .iter()
            .flat_map(|series| &series.points)
            .any(|point| point.value.is_nan())
        {
            return Ok(answer);
        }
        if self.keeps_marks.get().is_none() {
            // Only VictoriaMetrics evaluates `now()`, a function of MetricsQL.
            let is_victoria = match self.now("now()").await {
                Ok(_) => true,
                Err(QueryError::Refused { .. }) => false,
                Err(error) => return Err(error),
            };
            self.keeps_marks.set(Some(is_victoria));
        }
        if self.keeps_marks.get() == Some(true) {
            answer
                .iter_mut()
                .for_each(|series| series.points.retain(|point| !point.value.is_nan()));
        }
        Ok(answer)
    }

    async fn with_timeout<T>(
        &self,
        reply: impl Future<Output = Result<T, QueryError>>,
    ) -> Result<T, QueryError> {
        let late = || QueryError::TimedOut {
            server: self.server.clone(),
            seconds: self.timeout.as_secs(),
        };
        tokio::time::timeout(self.timeout, reply)
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    /// Decodes a response. If the body is not from Prometheus, the HTTP status determines the
    /// error, because proxies in front of Prometheus send their own bodies.
    fn read(&self, reply: &HttpReply) -> Result<Vec<Series>, QueryError> {
        let server = || self.server.clone();
        let forbidden = |message| QueryError::Forbidden {
            server: server(),
            message,
            by_api_server: false,
        };
        let text = std::str::from_utf8(&reply.body).ok();
        let Some(envelope) = text.and_then(Envelope::read) else {
            let text = String::from_utf8_lossy(&reply.body);
            let title = text
                .split_once("<title>")
                .and_then(|(_, rest)| rest.split_once("</title>"));
            let first: String = text
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(120)
                .collect();
            let problem = match title {
                Some((title, _)) => format!(
                    "it answers with the web page «{}»",
                    excerpt(title.trim(), TITLE)
                ),
                None if reply.media.contains("html") => "it answers with a web page".to_owned(),
                None if first.is_empty() => format!("it answers {} with an empty body", reply.code),
                None => format!("it answers {}: {first}", reply.code),
            };
            return Err(match reply.code {
                401 | 403 => forbidden(problem),
                // These statuses come from a gateway that cannot reach Prometheus.
                502..=504 => QueryError::Unreachable {
                    server: server(),
                    cause: problem,
                },
                _ => QueryError::NotPrometheus {
                    server: server(),
                    problem,
                },
            });
        };
        if envelope.status != "success" {
            if matches!(reply.code, 401 | 403) {
                return Err(forbidden(shortened(envelope.error, SERVER_MESSAGE)));
            }
            return Err(QueryError::Refused {
                server: server(),
                code: reply.code,
                kind: shortened(envelope.error_type, SERVER_MESSAGE),
                message: shortened(envelope.error, SERVER_MESSAGE),
            });
        }
        self.warnings.borrow_mut().extend(envelope.warnings());
        envelope
            .series()
            .map_err(|problem| QueryError::NotPrometheus {
                server: server(),
                problem: problem.to_string(),
            })
    }
}

/// Sends one request for a path below an address.
pub async fn fetch(
    address: &PrometheusAddress,
    question: QueryRequest,
) -> Result<HttpReply, QueryError> {
    let path = question.form.map_or_else(
        || question.path.clone(),
        |form| format!("{}?{form}", question.path),
    );
    // The caller applies its own timeout.
    Prometheus::direct(address, LONG)?.relay(&path).await
}

/// A timeout that never expires in practice.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// Joins the pieces of a window by merging series with equal labels.
fn joined(pieces: Vec<Vec<Series>>) -> Vec<Series> {
    let mut map = std::collections::BTreeMap::new();
    for series in pieces.into_iter().flatten() {
        map.entry(series.labels)
            .or_insert_with(Vec::new)
            .extend(series.points);
    }
    map.into_iter()
        .map(|(labels, points)| Series { labels, points })
        .collect()
}

#[cfg(test)]
mod tests;
