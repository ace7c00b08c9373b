//! Sends requests to Prometheus, directly or through a transport of the caller, and returns the
//! responses unchanged.

use prometheus_http_query::Client;
use prometheus_http_query::reqwest::header::HeaderValue;

use super::request::{FORM, HttpReply, QueryRequest, SendRequest, exchange};
use super::{PrometheusAddress, QueryError, Window, aws, remote_read};
use gpuctl_core::model::UnixSeconds;

pub(super) enum Transport<'a> {
    Direct { client: Client, server: String },
    Custom(SendRequest<'a>),
}

/// Evaluation time of a query.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueryTime {
    /// The server's current time.
    Now,
    At(UnixSeconds),
    /// A time, on a connection that is then closed. A Service distributes connections over its
    /// pods, not requests.
    Separate(UnixSeconds),
    Within(Window),
}

/// Maximum length of parameters in a URL, which servers limit. Longer parameters are sent in the
/// body of a POST. Through the API server, a POST needs a different permission than a GET, so
/// without that permission the long URL is tried.
const LONGEST_PATH: usize = 12_000;

impl Transport<'_> {
    /// Creates a transport that sends requests to an address.
    pub(super) fn new(address: &PrometheusAddress) -> Result<Self, QueryError> {
        let (client, server) = (address.client()?, address.shown());
        Ok(match address.signing() {
            Some(signing) => Self::Custom(aws::signing_transport(
                client.inner().clone(),
                server,
                signing,
            )),
            None => Self::Direct { client, server },
        })
    }

    pub(super) async fn send(&self, query: &str, time: QueryTime) -> Result<HttpReply, QueryError> {
        let (client, server) = match self {
            Self::Direct { client, server } => (client, server),
            Self::Custom(send) => return send_query(send, query, time).await,
        };
        let is_short = fits(query);
        let method = if is_short { "GET" } else { "POST" };
        match time {
            QueryTime::Within(Window { start, end, step }) => {
                let builder = client.query_range(query, start.0, end.0, step as f64);
                let sent = async {
                    if is_short {
                        builder.get_raw().await
                    } else {
                        builder.post_raw().await
                    }
                };
                exchange(server, method, "/api/v1/query_range", sent).await
            }
            QueryTime::Now | QueryTime::At(_) | QueryTime::Separate(_) => {
                let builder = client.query(query);
                let builder = match time {
                    QueryTime::At(time) => builder.at(time.0),
                    // The client speaks HTTP/1 only, where the header ends the connection.
                    QueryTime::Separate(time) => builder
                        .at(time.0)
                        .header("connection", HeaderValue::from_static("close")),
                    _ => builder,
                };
                let sent = async {
                    if is_short {
                        builder.get_raw().await
                    } else {
                        builder.post_raw().await
                    }
                };
                exchange(server, method, "/api/v1/query", sent).await
            }
        }
    }

    /// Sends a remote-read request, or returns `None` if the caller supplied the transport, because
    /// that kind cannot send binary bodies.
    pub(super) async fn remote_read(
        &self,
        question: Vec<u8>,
    ) -> Result<Option<HttpReply>, QueryError> {
        let Self::Direct { client, server } = self else {
            return Ok(None);
        };
        let request = client
            .inner()
            .post(format!("{server}/api/v1/read"))
            .body(question);
        let request = request
            .header("content-type", remote_read::MEDIA_TYPE)
            .header("content-encoding", "snappy")
            .header("x-prometheus-remote-read-version", "0.1.0");
        exchange(server, "POST", "/api/v1/read", request.send())
            .await
            .map(Some)
    }

    /// Requests a path below the API. Its parameters may be long.
    pub(super) async fn relay(&self, path: &str) -> Result<HttpReply, QueryError> {
        let question = match path.split_once('?') {
            Some((place, form)) if !fits(path) => QueryRequest {
                path: place.to_owned(),
                form: Some(form.to_owned()),
            },
            _ => QueryRequest {
                path: path.to_owned(),
                form: None,
            },
        };
        let (client, server) = match self {
            Self::Direct { client, server } => (client, server),
            Self::Custom(send) => return send(question).await,
        };
        let url = format!("{server}/{}", question.path);
        let (method, request) = match question.form {
            None => ("GET", client.inner().get(&url)),
            Some(form) => {
                let request = client.inner().post(&url).header("content-type", FORM);
                ("POST", request.body(form))
            }
        };
        exchange(server, method, &url, request.send()).await
    }
}

/// Returns true if a query fits into a URL. Servers and proxies accept at least this length.
fn fits(query: &str) -> bool {
    query.len() < 4000
}

async fn send_query(
    send: &SendRequest<'_>,
    query: &str,
    time: QueryTime,
) -> Result<HttpReply, QueryError> {
    let (verb, times) = match time {
        QueryTime::Now => ("query", Vec::new()),
        QueryTime::At(time) | QueryTime::Separate(time) => ("query", vec![("time", time.0)]),
        QueryTime::Within(Window { start, end, step }) => (
            "query_range",
            vec![("start", start.0), ("end", end.0), ("step", step)],
        ),
    };
    let times = times
        .into_iter()
        .map(|(name, value)| (name, value.to_string()));
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("query", query)
        .extend_pairs(times)
        .finish();
    let short = QueryRequest {
        path: format!("api/v1/{verb}?{form}"),
        form: None,
    };
    if form.len() <= LONGEST_PATH {
        return send(short).await;
    }
    match send(QueryRequest {
        path: format!("api/v1/{verb}"),
        form: Some(form),
    })
    .await
    {
        // The API server maps POST to `create services/proxy` and GET to `get services/proxy`.
        Err(QueryError::Forbidden { .. }) => send(short).await,
        other => other,
    }
}
