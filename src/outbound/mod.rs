//! Sends texts and JSON to an AI, a chat or a control system.
//!
//! Note: the path of such an address is a secret, so addresses are shown by their host alone.

pub(crate) mod ai;
pub(crate) mod chat;
pub(crate) mod sent_messages;

use std::time::Duration;

use anyhow::anyhow;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};

/// An address that was given for calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutboundUrl(Url);

impl OutboundUrl {
    /// Parses an address of `http` or `https`; an error does not quote it.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let url =
            Url::parse(text.trim()).map_err(|error| anyhow!("an address that is none: {error}"))?;
        match (url.scheme(), url.host_str()) {
            ("http" | "https", Some(host)) if !host.is_empty() => Ok(Self(url)),
            _ => Err(anyhow!(
                "an address begins with http:// or https:// and a host"
            )),
        }
    }

    /// Formats it without what may be a secret: `https://hooks.example.com`.
    pub(crate) fn shown(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    pub(crate) fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    pub(crate) fn path(&self) -> &str {
        self.0.path()
    }

    /// Returns all of it, for what has to tell it from others and shows it to nobody.
    pub(crate) fn whole(&self) -> &str {
        self.0.as_str()
    }

    /// Adds parameters.
    fn with(&self, parameters: &[(&str, &str)]) -> Self {
        let mut url = self.0.clone();
        url.query_pairs_mut().extend_pairs(parameters);
        Self(url)
    }
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct OutboundCall {
    pub address: OutboundUrl,
    pub headers: Vec<(String, String)>,
    /// JSON.
    pub body: String,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutboundResponse {
    pub code: u16,
    pub body: String,
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    /// Of one try.
    pub timeout: Duration,
    /// Further tries after one that failed for the moment.
    pub retries: usize,
    /// True when the other side may get the same call twice: else it is repeated only where it was
    /// surely not acted on.
    pub repeatable: bool,
}

/// The first wait between two tries; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait, whatever the other side asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// More than any of them has to say.
const LONGEST_ANSWER: usize = 1 << 20;

/// Why a try failed.
struct AttemptFailure {
    message: String,
    /// How sure it is that the call was not acted on.
    again: Again,
    wait: Option<Duration>,
}

#[derive(PartialEq)]
enum Again {
    Never,
    IfRepeatable,
    Always,
}

/// The way out.
pub(crate) struct Caller(Client);

impl Caller {
    pub(crate) fn new() -> anyhow::Result<Self> {
        // A key or a body goes to where it was given for and nowhere else.
        let builder = Client::builder()
            .redirect(Policy::none())
            .user_agent(concat!("gpuctl/", env!("CARGO_PKG_VERSION")));
        Ok(Self(builder.build().map_err(|error| {
            anyhow!("no calls can be made: {}", innermost(&error))
        })?))
    }

    /// Posts JSON. An answer of whatever status but those that ask for another try, which are
    /// errors at the end.
    pub(crate) async fn post(
        &self,
        call: &OutboundCall,
        patience: RetryPolicy,
    ) -> anyhow::Result<OutboundResponse> {
        let mut wait = FIRST_WAIT;
        let mut tries = 0;
        loop {
            tries += 1;
            let tried = tokio::time::timeout(patience.timeout, self.once(call)).await;
            let late = || AttemptFailure {
                message: format!("did not answer within {:?}", patience.timeout),
                again: Again::IfRepeatable,
                wait: None,
            };
            let failure = match tried.unwrap_or_else(|_| Err(late())) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let may = failure.again == Again::Always
                || (failure.again == Again::IfRepeatable && patience.repeatable);
            if !may || tries > patience.retries {
                let often = if tries > 1 {
                    format!(" ({tries} tries)")
                } else {
                    String::new()
                };
                return Err(anyhow!(
                    "{} {}{often}",
                    call.address.shown(),
                    failure.message
                ));
            }
            tokio::time::sleep(failure.wait.unwrap_or(wait).min(LONGEST_WAIT)).await;
            wait *= 2;
        }
    }

    async fn once(&self, call: &OutboundCall) -> Result<OutboundResponse, AttemptFailure> {
        let sent = self
            .0
            .post(call.address.0.clone())
            .headers(headers(call)?)
            .body(call.body.clone())
            .send()
            .await;
        let response = sent.map_err(|error| {
            let again = if error.is_connect() {
                Again::Always
            } else {
                Again::IfRepeatable
            };
            AttemptFailure {
                message: format!("cannot be reached: {}", innermost(&error.without_url())),
                again,
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
            again: Again::Never,
            wait: None,
        }
    }
}

fn headers(call: &OutboundCall) -> Result<HeaderMap, AttemptFailure> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    for (name, value) in &call.headers {
        let name: HeaderName = name.parse().map_err(|_| {
            AttemptFailure::fatal(format!("cannot be called: `{name}` is no header"))
        })?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| {
            AttemptFailure::fatal(format!(
                "cannot be called: the value of `{name}` cannot be sent"
            ))
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Returns why a response with this status counts as a failure, if it does.
fn refusal(response: &Response, address: &OutboundUrl) -> Option<AttemptFailure> {
    let code = response.status().as_u16();
    let (message, again) = match code {
        300..400 => {
            let to = response
                .headers()
                .get("location")
                .and_then(|to| to.to_str().ok())
                .and_then(|to| address.0.join(to).ok())
                .map(|to| OutboundUrl(to).shown());
            let to = to.as_deref().unwrap_or("elsewhere");
            let message = format!("redirects to {to}, which is not followed");
            (message, Again::Never)
        }
        429 | 503 => (format!("answers {code}"), Again::Always),
        500..600 => (format!("answers {code}"), Again::IfRepeatable),
        _ => return None,
    };
    Some(AttemptFailure {
        message,
        again,
        wait: asked_wait(response),
    })
}

/// Reads the whole body of a response.
async fn read(mut response: Response) -> Result<OutboundResponse, AttemptFailure> {
    let code = response.status().as_u16();
    let mut body = Vec::new();
    let half = |error: reqwest::Error| AttemptFailure {
        message: format!(
            "broke off in its answer: {}",
            innermost(&error.without_url())
        ),
        again: Again::IfRepeatable,
        wait: None,
    };
    while let Some(piece) = response.chunk().await.map_err(half)? {
        body.extend_from_slice(&piece);
        if body.len() > LONGEST_ANSWER {
            return Err(AttemptFailure::fatal("answers without an end".to_owned()));
        }
    }
    Ok(OutboundResponse {
        code,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

fn asked_wait(response: &Response) -> Option<Duration> {
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

/// Returns the innermost cause: the layers above it quote the URL.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut source = error;
    while let Some(inner) = source.source() {
        source = inner;
    }
    source.to_string()
}

/// Computes HMAC-SHA256 in Base64.
fn signature(key: &str, message: &str) -> String {
    use aws_lc_rs::hmac;
    use base64::prelude::{BASE64_STANDARD, Engine};
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    BASE64_STANDARD.encode(hmac::sign(&key, message.as_bytes()))
}
