//! Requests and responses as plain values, independent of the transport, of addresses and of
//! PromQL.

use bytes::Bytes;
use futures::future::LocalBoxFuture;
use prometheus_http_query::reqwest::{Response, Url};

use super::QueryError;
use gpuctl_core::model::secrets::shown_error;
use gpuctl_local::in_flight::{InFlight, NO_TURN};
use gpuctl_local::request_log::{Api, SentRequest};

/// A response, successful or not.
#[derive(Clone, Debug)]
pub struct HttpReply {
    pub code: u16,
    /// Media type from the `Content-Type` header.
    pub media: String,
    pub body: Bytes,
}

/// A request for the caller's transport: a path below the API, with parameters in a form or in the
/// path.
#[derive(Clone, Debug)]
pub struct QueryRequest {
    pub path: String,
    pub form: Option<String>,
}

/// A transport supplied by the caller, such as the API server's proxy.
pub type SendRequest<'a> =
    Box<dyn Fn(QueryRequest) -> LocalBoxFuture<'a, Result<HttpReply, QueryError>> + 'a>;

/// Maximum size of a response in bytes. It is held in memory before it is parsed.
const LARGEST: usize = 96 << 20;
/// Maximum bytes that are read from an error response.
const LARGEST_REFUSAL: usize = 8 << 20;

/// Content type of form parameters in a request body.
pub const FORM: &str = "application/x-www-form-urlencoded";

/// Sends a request, reads its response and logs both. `url` is used only for the log and may be a
/// path.
pub(super) async fn exchange<E: std::error::Error>(
    server: &str,
    method: &str,
    url: &str,
    sent: impl Future<Output = Result<Response, E>>,
) -> Result<HttpReply, QueryError> {
    let log = SentRequest::start(Api::Prometheus, method, url);
    let reply = match sent.await {
        Ok(response) => received(server, response).await,
        Err(error) => Err(unreachable(server, &error)),
    };
    match &reply {
        Ok(reply) => log.answered(reply.code, reply.body.len()),
        Err(error) => log.failed(&error.to_string()),
    }
    reply
}

/// Reads a response. A redirect that the client did not follow is an error.
async fn received(server: &str, mut response: Response) -> Result<HttpReply, QueryError> {
    let code = response.status().as_u16();
    let header = |name: &str| {
        response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    // The client follows redirects within the host, so this redirect leads elsewhere or exceeds the
    // limit.
    if (300..400).contains(&code) {
        let to = host_of(&header("location"));
        return Err(QueryError::Redirected {
            server: server.to_owned(),
            to,
        });
    }
    let media = header("content-type");
    let (mut body, mut in_flight) = (Vec::new(), InFlight::default());
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| unreachable(server, &error))?
    {
        // Messages quote only the beginning of an error, so stop reading.
        if code >= 300 && body.len() + piece.len() > LARGEST_REFUSAL {
            break;
        }
        if body.len() + piece.len() > LARGEST {
            let cause =
                "its response is larger than 96 MiB; query a shorter period, or a single namespace"
                    .to_owned();
            return Err(QueryError::Unreachable {
                server: server.to_owned(),
                cause,
            });
        }
        if !in_flight.add(piece.len()).await {
            return Err(QueryError::Unreachable {
                server: server.to_owned(),
                cause: NO_TURN.to_owned(),
            });
        }
        body.extend_from_slice(&piece);
    }
    Ok(HttpReply {
        code,
        media,
        body: body.into(),
    })
}

/// Converts a connection error. Keeps only the innermost cause, because outer causes quote the URL,
/// which may contain a password.
fn unreachable(server: &str, error: &dyn std::error::Error) -> QueryError {
    let mut source = error;
    while let Some(inner) = source.source() {
        source = inner;
    }
    QueryError::Unreachable {
        server: server.to_owned(),
        cause: shown_error(&source.to_string()),
    }
}

/// Returns the host of an address, without parts that could be secret.
fn host_of(location: &str) -> String {
    let url = Url::parse(location).ok();
    url.and_then(|url| url.host_str().map(ToOwned::to_owned))
        .unwrap_or_else(|| "an unknown address".to_owned())
}
