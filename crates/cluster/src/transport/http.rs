//! Sends one request with timeouts and retries, reads the response into memory, and classifies
//! errors.

use std::cell::Cell;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::de::DeserializeOwned;

use super::path;
use super::path::Destination;
use super::refusal::unreadable_answer;
use super::retry;
use super::retry::TryOutcome;
use super::{protobuf, warnings};
use crate::{Connection, Failure};
use gpuctl_core::model::secrets::shown_error;
use gpuctl_local::bundle::NotInBundle;
use gpuctl_local::in_flight::{InFlight, NO_TURN};
use gpuctl_local::request_log::{Api, SentRequest};

/// Maximum size of a response in bytes.
const LARGEST: usize = 64 << 20;
/// Maximum number of bytes read from an error response. gpuctl shows only the beginning of a long
/// message.
const LARGEST_REFUSAL: usize = 32 << 20;
/// Joins a path and percent-encoded parameters.
pub(crate) fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    let query: String = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(parameters)
        .finish();
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

/// Minimum duration of a failed connection attempt that counts as hung.
const HUNG: Duration = Duration::from_secs(4);

/// The response encoding of most requests.
pub(crate) const JSON: &str = "application/json";

/// A request and the encodings accepted for its response.
#[derive(Clone, Copy)]
pub(crate) struct ApiRequest<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    pub content_type: &'a str,
    pub body: &'a Bytes,
    /// Value of the `Accept` header.
    pub accept: &'a str,
    /// Buffer for the response. Reusing one buffer for several responses saves memory.
    pub buffer: &'a Cell<BytesMut>,
}

/// A response with a success status.
pub struct ApiResponse {
    pub code: u16,
    pub body: Bytes,
    /// Whether the body is protobuf instead of JSON.
    pub is_protobuf: bool,
}

/// A response with any status.
pub(crate) struct ApiReply {
    pub code: u16,
    /// The content type of the body.
    pub media: String,
    pub body: Bytes,
    /// Value of `Retry-After` in seconds.
    pub after: Option<u64>,
}

impl ApiResponse {
    pub(crate) fn json<T: DeserializeOwned>(&self, server: &str) -> Result<T, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| unreadable_answer(server, &self.body, &error))
    }
}

impl Connection {
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.send(&Method::GET, path, "", Bytes::new())
            .await?
            .json(&self.server)
    }

    /// Reads an object, or returns `None` if it does not exist.
    pub async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        match self.get(path).await {
            Ok(value) => Ok(Some(value)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    pub async fn send(
        &self,
        method: &Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<ApiResponse, Failure> {
        let buffer = Cell::default();
        self.answer(ApiRequest {
            method,
            path,
            content_type,
            body: &body,
            accept: JSON,
            buffer: &buffer,
        })
        .await
    }

    /// Sends a request, and retries it if that may help. The request timeout applies to each
    /// attempt.
    pub(crate) async fn answer(&self, request: ApiRequest<'_>) -> Result<ApiResponse, Failure> {
        let rehearsal = self.rehearsal(request.method, request.path, request.body);
        let request = rehearsal.as_ref().map_or(request, |rehearsal| ApiRequest {
            method: &rehearsal.method,
            path: &rehearsal.path,
            body: &rehearsal.body,
            ..request
        });
        self.reject_writes(request.method, request.path)?;
        path::check(request.path, Destination::ApiServer)?;
        let (mut tries, mut waited) = (0, Duration::ZERO);
        loop {
            tries += 1;
            let start = Instant::now();
            let client_since = self.clients.borrow().since;
            let attempt = self.try_once(request);
            let result = tokio::time::timeout(self.request_timeout, attempt).await;
            let (outcome, failure) = match result {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err((TryOutcome::Status(401, _), _))) if self.renew(client_since).await? => {
                    continue;
                }
                Ok(Err(error)) => error,
                Err(_) => {
                    let seconds = self.request_timeout.as_secs();
                    return Err(Failure::TimedOut {
                        server: self.server.clone(),
                        seconds,
                    });
                }
            };
            // Do not retry an attempt that hung while connecting, because it would hang again.
            let slow = outcome == TryOutcome::NotConnected && start.elapsed() > HUNG;
            match retry::wait(outcome, tries, waited).filter(|_| !slow) {
                None => return Err(failure),
                Some(pause) => {
                    waited += pause;
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Sends one request through the API server's proxy, and returns the response of the program
    /// behind it with any status.
    pub(crate) async fn ask(
        &self,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<ApiReply, Failure> {
        path::check(path, Destination::Proxied)?;
        let client_since = self.clients.borrow().since;
        let method = if body.is_empty() {
            Method::GET
        } else {
            Method::POST
        };
        let buffer = Cell::default();
        let request = ApiRequest {
            method: &method,
            path,
            content_type,
            body: &body,
            accept: JSON,
            buffer: &buffer,
        };
        let exchange = async || self.exchange(request).await.map_err(|(_, failure)| failure);
        let reply = exchange().await?;
        if reply.code == 401 && self.renew(client_since).await? {
            return exchange().await;
        }
        Ok(reply)
    }

    async fn try_once(
        &self,
        request: ApiRequest<'_>,
    ) -> Result<ApiResponse, (TryOutcome, Failure)> {
        let ApiReply {
            code,
            media,
            body,
            after: retry_after,
        } = self.exchange(request).await?;
        let success = (200..300).contains(&code);
        let is_protobuf = media.starts_with(protobuf::MEDIA_TYPE);
        // Check the content type too: the HTML login page of a proxy also has a success status.
        if success && (media.contains("json") || (is_protobuf && request.accept != JSON)) {
            return Ok(ApiResponse {
                code,
                body,
                is_protobuf,
            });
        }
        let failure = self.failure(code, &media, &body);
        Err((
            // Do not retry a success with the wrong content type.
            TryOutcome::Status(if success { 400 } else { code }, retry_after),
            failure,
        ))
    }

    /// Reads a response body. The status `code` determines the size limit.
    async fn read_body(
        &self,
        mut parts: Body,
        code: u16,
        buffer: &Cell<BytesMut>,
    ) -> Result<Bytes, (TryOutcome, Failure)> {
        // Append to one buffer. Collecting the parts first would need twice the memory, and pages
        // already use more memory than anything else.
        let mut body = buffer.take();
        body.clear();
        let mut in_flight = InFlight::default();
        while let Some(frame) = parts.frame().await {
            let frame = frame.map_err(|error| {
                (
                    TryOutcome::Broken,
                    self.broken(format!("the response was cut off: {error}")),
                )
            })?;
            let data = frame.data_ref().map_or(&[][..], |data| data);
            // The beginning of an error response is enough.
            if code >= 300 && body.len() + data.len() > LARGEST_REFUSAL {
                break;
            }
            // Do not retry, because the next response would be just as large.
            if body.len() + data.len() > LARGEST {
                return Err((
                    TryOutcome::Status(400, None),
                    Failure::TooLarge {
                        server: self.server.clone(),
                    },
                ));
            }
            if !in_flight.add(data.len()).await {
                return Err((
                    TryOutcome::Status(400, None),
                    self.broken(NO_TURN.to_owned()),
                ));
            }
            body.extend_from_slice(data);
        }
        Ok(body.freeze())
    }

    async fn exchange(&self, request: ApiRequest<'_>) -> Result<ApiReply, (TryOutcome, Failure)> {
        let sent = SentRequest::start(Api::Kubernetes, request.method.as_str(), request.path);
        let reply = self.exchange_unlogged(request).await;
        match &reply {
            Ok(reply) => sent.answered(reply.code, reply.body.len()),
            Err((_, failure)) => sent.failed(&failure.to_string()),
        }
        reply
    }

    async fn exchange_unlogged(
        &self,
        request: ApiRequest<'_>,
    ) -> Result<ApiReply, (TryOutcome, Failure)> {
        let ApiRequest {
            method,
            path,
            content_type,
            body,
            accept,
            buffer,
        } = request;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept);
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request
            .body(Body::from(body.to_vec()))
            .map_err(|_| (TryOutcome::Status(400, None), Failure::no_path(path)))?;
        let client = self.clients.borrow().requests.clone();
        let response = client.send(request).await.map_err(|error| {
            let failure = self.unreachable(&error);
            let outcome = if is_connect(&error) {
                TryOutcome::NotConnected
            } else {
                TryOutcome::from_failure(&failure)
            };
            (outcome, failure)
        })?;
        warnings::note(response.headers());
        let date = response
            .headers()
            .get(header::DATE)
            .and_then(|value| value.to_str().ok());
        if let Some(time) = date.and_then(|text| jiff::fmt::rfc2822::parse(text).ok()) {
            self.server_time.set(Some(time.timestamp()));
        }
        let code = response.status().as_u16();
        // RFC 9110 also allows a date in `Retry-After`, but the API server sends seconds.
        let retry_after = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let media = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let body = self.read_body(response.into_body(), code, buffer).await?;
        Ok(ApiReply {
            code,
            media,
            body,
            after: retry_after,
        })
    }

    fn broken(&self, cause: String) -> Failure {
        Failure::Unreachable {
            server: self.server.clone(),
            cause,
        }
    }

    /// Describes a connection error by its innermost cause, because the outer layers add no detail.
    pub(crate) fn unreachable(&self, error: &kube::Error) -> Failure {
        if let kube::Error::Service(inner) = error
            && let Some(missing) = inner.downcast_ref::<NotInBundle>()
        {
            return Failure::NotInBundle(missing.clone());
        }
        let mut source: &dyn std::error::Error = error;
        while let Some(inner) = source.source() {
            source = inner;
        }
        let text = source.to_string();
        let known_cause = [
            (
                "UnknownIssuer",
                "its certificate is signed by an authority that is not in the kubeconfig",
            ),
            ("NotValidForName", "its certificate is for a different host"),
            ("Expired", "its certificate has expired"),
            ("deadline has elapsed", "the connection attempt timed out"),
        ];
        let description = known_cause
            .iter()
            .find(|(pattern, _)| text.contains(pattern))
            .map(|(_, description)| (*description).to_owned());
        if matches!(error, kube::Error::Auth(_)) {
            return Failure::Credentials {
                cause: "cannot use the kubeconfig's credentials".to_owned(),
                hint: None,
            };
        }
        // Remove secrets, because lower layers can quote the address of a proxy with its password.
        self.broken(description.unwrap_or_else(|| shown_error(&text)))
    }
}

/// Returns true if no connection was established. Otherwise, the server may have executed the
/// request.
fn is_connect(error: &kube::Error) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = source {
        if let Some(client) = inner.downcast_ref::<hyper_util::client::legacy::Error>() {
            return client.is_connect();
        }
        source = inner.source();
    }
    false
}
