//! Sends one request with timeouts and retries, reads the response into bytes, and tells errors
//! apart.

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

/// Bytes of one answer.
const LARGEST: usize = 64 << 20;
/// Read limit for an error response. A message can be long, but gpuctl shows only its beginning.
const LARGEST_REFUSAL: usize = 32 << 20;
/// Joins a path and its parameters; values are percent-encoded.
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

/// The encoding of answers that most requests take.
pub(crate) const JSON: &str = "application/json";

/// What is sent, and what may be answered.
#[derive(Clone, Copy)]
pub(crate) struct ApiRequest<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    pub content_type: &'a str,
    pub body: &'a Bytes,
    /// Encodings of the answer, as an `Accept` header lists them.
    pub accept: &'a str,
    /// Takes the answer; that of an earlier one saves memory.
    pub buffer: &'a Cell<BytesMut>,
}

/// An answer whose status is a success.
pub struct ApiResponse {
    pub code: u16,
    pub body: Bytes,
    /// Whether its body is protobuf, for a request that takes it, and not JSON.
    pub is_protobuf: bool,
}

/// An answer of whatever status.
pub(crate) struct ApiReply {
    pub code: u16,
    /// The content type.
    pub media: String,
    pub body: Bytes,
    /// Seconds after which the server wants to be asked again.
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

    /// Returns the object, or `None` when it does not exist.
    pub async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
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

    /// Asks, and again where that may help, within the time for a request.
    pub(crate) async fn answer(&self, request: ApiRequest<'_>) -> Result<ApiResponse, Failure> {
        self.must_only_read(request.method, request.path)?;
        path::check(request.path, Destination::ApiServer)?;
        let (mut tries, mut waited) = (0, Duration::ZERO);
        loop {
            tries += 1;
            let start = Instant::now();
            let used = self.clients.borrow().since;
            let once = self.try_once(request);
            let sent = tokio::time::timeout(self.request_timeout, once).await;
            let (outcome, failure) = match sent {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err((TryOutcome::Status(401, _), _))) if self.renew(used).await? => continue,
                Ok(Err(refused)) => refused,
                Err(_) => {
                    let seconds = self.request_timeout.as_secs();
                    return Err(Failure::TimedOut {
                        server: self.server.clone(),
                        seconds,
                    });
                }
            };
            // A connection attempt that hung is not worth two more.
            let slow = outcome == TryOutcome::Broken && start.elapsed() > Duration::from_secs(4);
            match retry::wait(outcome, tries, waited).filter(|_| !slow) {
                None => return Err(failure),
                Some(wait) => {
                    waited += wait;
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// Sends one request through the API server's proxy, and returns the response of the program
    /// behind it.
    pub(crate) async fn ask(
        &self,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<ApiReply, Failure> {
        path::check(path, Destination::Proxied)?;
        let used = self.clients.borrow().since;
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
        let once = async || self.exchange(request).await.map_err(|(_, failure)| failure);
        let reply = once().await?;
        if reply.code == 401 && self.renew(used).await? {
            return once().await;
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
            after,
        } = self.exchange(request).await?;
        let success = (200..300).contains(&code);
        let is_protobuf = media.starts_with(protobuf::MEDIA_TYPE);
        if success && (media.contains("json") || (is_protobuf && request.accept != JSON)) {
            return Ok(ApiResponse {
                code,
                body,
                is_protobuf,
            });
        }
        let failure = self.failure(code, &media, &body);
        Err((
            TryOutcome::Status(if success { 400 } else { code }, after),
            failure,
        ))
    }

    /// Reads a response, of which `code` decides how large it may be.
    async fn read_body(
        &self,
        mut parts: Body,
        code: u16,
        buffer: &Cell<BytesMut>,
    ) -> Result<Bytes, (TryOutcome, Failure)> {
        // Collected parts would be there twice when they are put together, and a page is what most
        // memory is needed for.
        let mut body = buffer.take();
        body.clear();
        let mut in_flight = InFlight::default();
        while let Some(part) = parts.frame().await {
            let part = part.map_err(|error| {
                (
                    TryOutcome::Broken,
                    self.broken(format!("the answer broke off: {error}")),
                )
            })?;
            let data = part.data_ref().map_or(&[][..], |data| data);
            if code >= 300 && body.len() + data.len() > LARGEST_REFUSAL {
                break;
            }
            // Another try would be as large.
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
        let sent = SentRequest::now(Api::Kubernetes, request.method.as_str(), request.path);
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
            (TryOutcome::of(&failure), failure)
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
        let after = response
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
            after,
        })
    }

    fn broken(&self, cause: String) -> Failure {
        Failure::Unreachable {
            server: self.server.clone(),
            cause,
        }
    }

    /// The innermost cause tells what happened; the layers above only that something did.
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
        let known = [
            (
                "UnknownIssuer",
                "its certificate is signed by an authority that the kubeconfig does not name",
            ),
            ("NotValidForName", "its certificate is for another host"),
            ("Expired", "its certificate has expired"),
            (
                "deadline has elapsed",
                "no answer to the connection attempt",
            ),
        ];
        let plain = known
            .iter()
            .find(|(word, _)| text.contains(word))
            .map(|(_, plain)| (*plain).to_owned());
        if matches!(error, kube::Error::Auth(_)) {
            return Failure::Credentials {
                cause: "the credentials of the kubeconfig cannot be used".to_owned(),
                hint: None,
            };
        }
        // Layers below can quote a proxy's address with its password.
        self.broken(plain.unwrap_or_else(|| shown_error(&text)))
    }
}
