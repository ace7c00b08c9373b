//! Opens the WebSocket for exec, attach and port-forward. Both directions run independently, so
//! that a full buffer in one does not block the opposite one. Pings detect a lost peer.

use std::cell::Cell;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::{Sink, Stream, StreamExt};
use http::{Method, Request};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::path;
use super::path::Destination;
use crate::{Connection, Failure};
use gpuctl_local::request_log::{Api, SentRequest};

/// Interval of pings, which keep an idle connection open and detect a lost peer.
pub(crate) const PING: Duration = Duration::from_secs(20);
/// Silence after which a peer that has answered pings counts as lost.
const GONE: Duration = Duration::from_secs(70);

type Sending = Pin<Box<dyn Sink<Message, Error = Error>>>;
type Receiving = Pin<Box<dyn Stream<Item = Result<Message, Error>>>>;

pub(crate) struct Socket {
    pub send: Sending,
    pub receive: Receiver,
    /// Whether one direction can be closed while the opposite one stays open.
    pub half_close: bool,
}

/// The receiving half of the socket.
pub(crate) struct Receiver {
    messages: Receiving,
    /// Time of the peer's last message, or `None` until the peer has answered a ping.
    last_message: Cell<Option<Instant>>,
}

impl Connection {
    /// Opens a WebSocket at `path`. Renews expired credentials, and fails if the server does not
    /// respond in time.
    pub(crate) async fn upgrade(&self, path: &str) -> Result<Socket, Failure> {
        self.reject_writes(&Method::GET, path)?;
        path::check(path, Destination::ApiServer)?;
        loop {
            let (client, client_since) = self.streaming();
            let request = Request::builder()
                .uri(path)
                .body(Vec::new())
                .map_err(|_| Failure::no_path(path))?;
            let sent = SentRequest::start(Api::Kubernetes, Method::GET.as_str(), path);
            let result =
                match tokio::time::timeout(self.request_timeout, client.connect(request)).await {
                    Ok(upgraded) => upgraded.map_err(|error| self.upgrade_failure(error)),
                    Err(_) => Err(Failure::TimedOut {
                        server: self.server.clone(),
                        seconds: self.request_timeout.as_secs(),
                    }),
                };
            match &result {
                Ok(_) => sent.opened(101),
                Err(failure) => sent.failed(&failure.to_string()),
            }
            match result {
                Ok(connection) => {
                    let half_close = connection.supports_stream_close();
                    let (send, receive) = connection.into_stream().split();
                    let receive = Receiver {
                        messages: Box::pin(receive),
                        last_message: Cell::new(None),
                    };
                    return Ok(Socket {
                        send: Box::pin(send),
                        receive,
                        half_close,
                    });
                }
                Err(failure) if failure.code() == Some(401) && self.renew(client_since).await? => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    fn upgrade_failure(&self, error: kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) => Failure::Api {
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.clone(),
                resume: None,
                fields: Vec::new(),
                resource: Box::default(),
            },
            kube::Error::UpgradeConnection(error) => {
                let cause = format!("{error}; a proxy on the path may block WebSockets");
                Failure::Unreachable {
                    server: self.server.clone(),
                    cause,
                }
            }
            other => self.unreachable(&other),
        }
    }
}

impl Receiver {
    /// Returns the channel and content of the next message, or `None` after the connection has
    /// ended for any reason.
    pub(crate) async fn next(&mut self) -> Option<(u8, Bytes)> {
        loop {
            // Ignore silence until the first answer, because some peers never answer pings.
            let deadline = self
                .last_message
                .get()
                .map(|last_message| last_message + GONE);
            let message = match deadline {
                Some(end) => tokio::time::timeout_at(end, self.messages.next())
                    .await
                    .ok()?,
                None => self.messages.next().await,
            };
            if self.last_message.get().is_some() {
                self.last_message.set(Some(Instant::now()));
            }
            match message?.ok()? {
                Message::Binary(mut bytes) if !bytes.is_empty() => {
                    let channel = bytes.split_to(1)[0];
                    return Some((channel, bytes));
                }
                Message::Pong(_) => self.last_message.set(Some(Instant::now())),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }
}

/// Builds a message for a channel.
pub(crate) fn framed(channel: u8, content: &[u8]) -> Message {
    let mut bytes = Vec::with_capacity(content.len() + 1);
    bytes.push(channel);
    bytes.extend_from_slice(content);
    Message::Binary(bytes.into())
}
