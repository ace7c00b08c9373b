//! Sends text and JSON to AI services, chats, control systems and mail servers.
//!
//! The path of a webhook URL is a secret, so messages show only its origin.

pub(crate) mod ai;
pub(crate) mod chat;
pub(crate) mod destination;
pub(crate) mod mail;
pub(crate) mod sent_messages;

use std::time::Duration;

use anyhow::anyhow;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};

/// URL of a service that receives calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutboundUrl(Url);

impl OutboundUrl {
    /// Parses an `http` or `https` URL. Errors do not quote it.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let url = Url::parse(text.trim()).map_err(|error| anyhow!("invalid URL: {error}"))?;
        match (url.scheme(), url.host_str()) {
            ("http" | "https", Some(host)) if !host.is_empty() => Ok(Self(url)),
            _ => Err(anyhow!(
                "a URL must start with http:// or https:// and include a host"
            )),
        }
    }

    /// Formats the origin, for example `https://hooks.example.com`. All other parts may be secret.
    pub(crate) fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    pub(crate) fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    pub(crate) fn path(&self) -> &str {
        self.0.path()
    }

    /// Whether the URL contains a user name or a password.
    fn has_user(&self) -> bool {
        !self.0.username().is_empty() || self.0.password().is_some()
    }

    /// Returns the whole URL, to identify it. It may contain secrets, so never show it.
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Appends query parameters.
    fn with_query(&self, parameters: &[(&str, &str)]) -> Self {
        let mut url = self.0.clone();
        url.query_pairs_mut().extend_pairs(parameters);
        Self(url)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct OutboundCall {
    pub address: OutboundUrl,
    pub headers: Vec<(String, String)>,
    /// JSON.
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutboundResponse {
    pub code: u16,
    pub body: String,
}

/// Timeout and retries of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    /// Timeout for a single attempt.
    pub timeout: Duration,
    /// Number of retries after a temporary failure.
    pub retries: usize,
    /// Whether the service may receive the same call twice. If false, a call is retried only if the
    /// service certainly did not process it.
    pub repeatable: bool,
}

/// Wait before the first retry. Doubles with each further retry.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Longest wait. A larger `Retry-After` is cut to this value.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Maximum size of a response in bytes, far above that of any real response.
const LONGEST_ANSWER: usize = 1 << 20;

/// A failed attempt, with the conditions of a retry.
struct AttemptFailure {
    message: String,
    /// When a retry is safe.
    retry: RetryRule,
    wait: Option<Duration>,
}

#[derive(PartialEq)]
enum RetryRule {
    Never,
    IfRepeatable,
    Always,
}

/// An HTTP client for outbound calls.
pub(crate) struct Caller(Client);

impl Caller {
    pub(crate) fn new() -> anyhow::Result<Self> {
        // Do not follow redirects: keys and bodies may only reach the configured server.
        let builder = Client::builder()
            .redirect(Policy::none())
            .user_agent(concat!("gpuctl/", env!("CARGO_PKG_VERSION")));
        Ok(Self(builder.build().map_err(|error| {
            anyhow!("cannot create an HTTP client: {}", innermost(&error))
        })?))
    }

    /// Posts JSON and returns the response. A status that asks for a retry becomes an error after
    /// the last attempt. Any other status is returned to the caller.
    pub(crate) async fn post(
        &self,
        call: &OutboundCall,
        patience: RetryPolicy,
    ) -> anyhow::Result<OutboundResponse> {
        let mut wait = FIRST_WAIT;
        let mut tries = 0;
        loop {
            tries += 1;
            let attempt = tokio::time::timeout(patience.timeout, self.attempt(call)).await;
            let timed_out = || AttemptFailure {
                message: format!("did not respond within {:?}", patience.timeout),
                retry: RetryRule::IfRepeatable,
                wait: None,
            };
            let failure = match attempt.unwrap_or_else(|_| Err(timed_out())) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let may_retry = failure.retry == RetryRule::Always
                || (failure.retry == RetryRule::IfRepeatable && patience.repeatable);
            if !may_retry || tries > patience.retries {
                let attempts = if tries > 1 {
                    format!(" ({tries} tries)")
                } else {
                    String::new()
                };
                return Err(anyhow!(
                    "{} {}{attempts}",
                    call.address.origin(),
                    failure.message
                ));
            }
            tokio::time::sleep(failure.wait.unwrap_or(wait).min(LONGEST_WAIT)).await;
            wait *= 2;
        }
    }

    async fn attempt(&self, call: &OutboundCall) -> Result<OutboundResponse, AttemptFailure> {
        let sent = self
            .0
            .post(call.address.0.clone())
            .headers(headers(call)?)
            .body(call.body.clone())
            .send()
            .await;
        let response = sent.map_err(|error| {
            // Without a connection, the server cannot have received the call.
            let retry = if error.is_connect() {
                RetryRule::Always
            } else {
                RetryRule::IfRepeatable
            };
            AttemptFailure {
                message: format!("cannot be reached: {}", innermost(&error.without_url())),
                retry,
                wait: None,
            }
        })?;
        match refusal(&response, &call.address) {
            Some(failure) => Err(failure),
            None => read(response).await,
        }
    }
}

impl AttemptFailure {
    fn fatal(message: String) -> Self {
        Self {
            message,
            retry: RetryRule::Never,
            wait: None,
        }
    }
}

fn headers(call: &OutboundCall) -> Result<HeaderMap, AttemptFailure> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    for (name, value) in &call.headers {
        let name: HeaderName = name.parse().map_err(|_| {
            AttemptFailure::fatal(format!(
                "cannot be called: `{name}` is not a valid header name"
            ))
        })?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| {
            AttemptFailure::fatal(format!(
                "cannot be called: the value of header `{name}` has invalid characters"
            ))
        })?;
        // Hides the value in debug output and keeps it out of HTTP/2 header tables.
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Returns the failure for a redirect or for a status that may be retried, and `None` for any other
/// status.
fn refusal(response: &Response, address: &OutboundUrl) -> Option<AttemptFailure> {
    let code = response.status().as_u16();
    let (message, retry) = match code {
        300..400 => {
            let to = response
                .headers()
                .get("location")
                .and_then(|to| to.to_str().ok())
                .and_then(|to| address.0.join(to).ok())
                .map(|to| OutboundUrl(to).origin());
            let to = to.as_deref().unwrap_or("elsewhere");
            let message = format!("redirects to {to}, but redirects are not followed");
            (message, RetryRule::Never)
        }
        // With these statuses, the server did not process the call (RFC 6585, RFC 9110).
        429 | 503 => (format!("returned {code}"), RetryRule::Always),
        500..600 => (format!("returned {code}"), RetryRule::IfRepeatable),
        _ => return None,
    };
    Some(AttemptFailure {
        message,
        retry,
        wait: retry_after(response),
    })
}

/// Reads the body of a response, up to the size limit.
async fn read(mut response: Response) -> Result<OutboundResponse, AttemptFailure> {
    let code = response.status().as_u16();
    let mut body = Vec::new();
    let incomplete = |error: reqwest::Error| AttemptFailure {
        message: format!(
            "closed the connection while responding: {}",
            innermost(&error.without_url())
        ),
        retry: RetryRule::IfRepeatable,
        wait: None,
    };
    while let Some(piece) = response.chunk().await.map_err(incomplete)? {
        body.extend_from_slice(&piece);
        if body.len() > LONGEST_ANSWER {
            return Err(AttemptFailure::fatal("returned more than 1 MiB".to_owned()));
        }
    }
    Ok(OutboundResponse {
        code,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

fn retry_after(response: &Response) -> Option<Duration> {
    // Supports only a number of seconds. A date is ignored.
    let seconds = response
        .headers()
        .get(RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}

/// Returns the innermost cause of an error, because the outer errors contain the URL.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut source = error;
    while let Some(inner) = source.source() {
        source = inner;
    }
    source.to_string()
}

/// Computes the HMAC-SHA256 of `message`, encoded as Base64.
fn signature(key: &str, message: &str) -> String {
    use aws_lc_rs::hmac;
    use base64::prelude::{BASE64_STANDARD, Engine};
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    BASE64_STANDARD.encode(hmac::sign(&key, message.as_bytes()))
}
