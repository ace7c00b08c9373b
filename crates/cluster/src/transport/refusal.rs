//! Decodes error responses of the API server, and describes responses that cannot be decoded.

use serde::{Deserialize, Deserializer};

use super::protobuf;
use crate::{Blame, Connection, Failure};
use gpuctl_core::model::values::excerpt::{SERVER_MESSAGE, excerpt, shortened};

/// Maximum number of causes read from an error response.
const MOST_CAUSES: usize = 100;

/// Maximum number of characters of a web page's title, or of a response that is not a Status.
const TITLE: usize = 200;

/// Builds the failure for a response that cannot be decoded. Names the object, or reports that the
/// response does not come from an API server.
pub(crate) fn unreadable_answer(server: &str, body: &[u8], error: &serde_json::Error) -> Failure {
    #[derive(Deserialize)]
    struct AnyObject {
        kind: String,
        metadata: AnyMetadata,
    }
    #[derive(Deserialize)]
    struct AnyMetadata {
        name: String,
        namespace: Option<String>,
    }
    let Ok(object) = serde_json::from_slice::<AnyObject>(body) else {
        return unreadable(server, error);
    };
    let AnyMetadata { name, namespace } = object.metadata;
    let name = namespace.map_or(name.clone(), |namespace| format!("{namespace}/{name}"));
    let object = excerpt(&format!("{} {name}", object.kind), SERVER_MESSAGE).into_owned();
    Failure::UnreadableObject {
        object,
        byte: error.column(),
    }
}

pub(crate) fn unreadable(server: &str, error: &serde_json::Error) -> Failure {
    let answer = match error.classify() {
        serde_json::error::Category::Data => format!(
            "a response has an unexpected structure at byte {}",
            error.column()
        ),
        _ => format!(
            "a response is truncated or not JSON at byte {}",
            error.column()
        ),
    };
    Failure::NotKubernetes {
        server: server.to_owned(),
        found: answer,
    }
}

/// The fields that gpuctl reads from a Status.
#[derive(Deserialize)]
struct WireStatus {
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    reason: String,
    #[serde(default, deserialize_with = "or_default")]
    message: String,
    #[serde(default, deserialize_with = "or_default")]
    metadata: StatusMetadata,
    #[serde(default, deserialize_with = "or_default")]
    details: StatusDetails,
}

impl WireStatus {
    fn failure(self, code: u16) -> Failure {
        let details = self.details;
        Failure::Api {
            code,
            reason: shortened(self.reason, TITLE),
            message: match self.message.is_empty() {
                true => format!("the API server returned {code}"),
                false => shortened(self.message, SERVER_MESSAGE),
            },
            resume: Some(self.metadata.next).filter(|token| !token.is_empty()),
            fields: details
                .causes
                .into_iter()
                .take(MOST_CAUSES)
                .map(blamed)
                .collect(),
            resource: shortened(details.kind, TITLE).into(),
        }
    }
}

/// Describes a web page that was received instead of an object.
fn web_page(body: &[u8]) -> String {
    let page = String::from_utf8_lossy(body);
    let title = page
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"));
    title.map_or("it answers with a web page".to_owned(), |(title, _)| {
        format!(
            "it answers with the web page «{}»",
            excerpt(title.trim(), TITLE)
        )
    })
}

#[derive(Default, Deserialize)]
struct StatusMetadata {
    #[serde(default, deserialize_with = "or_default", rename = "continue")]
    next: String,
}

#[derive(Default, Deserialize)]
struct StatusDetails {
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    causes: Vec<StatusCause>,
}

#[derive(Deserialize)]
struct StatusCause {
    #[serde(default, deserialize_with = "or_default")]
    field: String,
    #[serde(default, deserialize_with = "or_default")]
    message: String,
}

/// Converts a cause from an error response to an invalid field.
fn blamed(StatusCause { field, message }: StatusCause) -> Blame {
    Blame {
        field: shortened(field, SERVER_MESSAGE),
        message: shortened(message, SERVER_MESSAGE),
    }
}

/// Decodes `null` like an absent field.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    value: D,
) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

impl Connection {
    /// Converts an error response to a failure.
    pub(crate) fn failure(&self, code: u16, media: &str, body: &[u8]) -> Failure {
        // An error has the encoding that the request accepted.
        let status: Option<WireStatus> = match media.starts_with(protobuf::MEDIA_TYPE) {
            true => protobuf::decode(body, &protobuf::STATUS).ok(),
            false => serde_json::from_slice(body)
                .ok()
                .filter(|status: &WireStatus| status.kind == "Status"),
        };
        if let Some(status) = status {
            return status.failure(code);
        }
        if media.contains("html") {
            return Failure::NotKubernetes {
                server: self.server.clone(),
                found: web_page(body),
            };
        }
        if code < 400 {
            return Failure::NotKubernetes {
                server: self.server.clone(),
                found: format!("it answers {code} with {}", excerpt(media, TITLE)),
            };
        }
        let start = &body[..body.len().min(4 * TITLE)];
        let text: String = String::from_utf8_lossy(start)
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(TITLE)
            .collect();
        let message = if text.is_empty() {
            format!("the API server returned {code}")
        } else {
            format!("the API server returned {code}: {text}")
        };
        Failure::Api {
            code,
            reason: String::new(),
            message,
            resume: None,
            fields: Vec::new(),
            resource: Box::default(),
        }
    }
}

#[cfg(test)]
mod tests;
