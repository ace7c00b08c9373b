//! Calls AI services through OpenAI's chat completions API, which most services support, or through
//! Anthropic's messages API.

use anyhow::anyhow;
use serde_json::{Value, json};

use super::{OutboundCall, OutboundResponse, OutboundUrl};

/// An AI service with its model and key.
#[derive(Clone, Debug)]
pub(crate) struct Ai {
    pub address: OutboundUrl,
    pub model: String,
    /// Secret, never printed.
    pub key: Option<String>,
}

/// Maximum length of an answer, which Anthropic's API requires. gpuctl needs only a few lines.
const MOST_TOKENS: u32 = 1024;

/// The service rejected the key, so calls about further devices would fail too.
#[derive(Debug, thiserror::Error)]
#[error("{shown} returned {code}: the key is missing or was rejected")]
pub(crate) struct KeyRefused {
    shown: String,
    code: u16,
}

impl Ai {
    /// Returns true if the URL's host or path selects Anthropic's API.
    fn is_anthropic(&self) -> bool {
        let (host, path) = (self.address.host(), self.address.path());
        // Anthropic also serves OpenAI's API, under OpenAI's path.
        let is_own_host = host == "anthropic.com" || host.ends_with(".anthropic.com");
        path.ends_with("/v1/messages") || (is_own_host && !path.ends_with("/chat/completions"))
    }

    fn is_azure(&self) -> bool {
        let host = self.address.host();
        [
            ".openai.azure.com",
            ".openai.azure.cn",
            ".openai.azure.us",
            ".cognitiveservices.azure.com",
            ".services.ai.azure.com",
        ]
        .iter()
        .any(|end| host.ends_with(end))
    }

    /// Builds the call for a question. `instruction` is the system prompt.
    pub(crate) fn call(&self, instruction: &str, question: &str) -> OutboundCall {
        let user = json!({"role": "user", "content": question});
        let body = if self.is_anthropic() {
            json!({"model": self.model, "max_tokens": MOST_TOKENS, "system": instruction, "messages": [user]})
        } else {
            json!({"model": self.model, "messages": [{"role": "system", "content": instruction}, user]})
        };
        let mut headers = Vec::new();
        if self.is_anthropic() {
            headers.push(("anthropic-version".to_owned(), "2023-06-01".to_owned()));
        }
        if let Some(key) = &self.key {
            headers.push(if self.is_anthropic() {
                ("x-api-key".to_owned(), key.clone())
            } else if self.is_azure() {
                ("api-key".to_owned(), key.clone())
            } else {
                ("authorization".to_owned(), format!("Bearer {key}"))
            });
        }
        OutboundCall {
            address: self.address.clone(),
            headers,
            body: body.to_string(),
        }
    }

    /// Extracts the text of the answer. Errors quote the response but never the request.
    pub(crate) fn message(&self, answer: &OutboundResponse) -> anyhow::Result<String> {
        let shown_url = self.address.origin();
        if answer.code != 200 {
            return Err(match answer.code {
                code @ (401 | 403) => KeyRefused {
                    shown: shown_url.clone(),
                    code,
                }
                .into(),
                404 => anyhow!("{shown_url} returned 404: no such address or model"),
                code => anyhow!("{shown_url} returned {code}"),
            });
        }
        let body: Value = serde_json::from_str(&answer.body)
            .map_err(|_| anyhow!("{shown_url} did not return JSON"))?;
        let text = if self.is_anthropic() {
            let parts = body["content"].as_array().into_iter().flatten();
            parts
                .filter(|part| part["type"] == "text")
                .find_map(|part| part["text"].as_str())
        } else {
            body["choices"][0]["message"]["content"].as_str()
        };
        text.map(ToOwned::to_owned)
            .ok_or_else(|| anyhow!("{shown_url} returned no message"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ai(address: &str) -> Ai {
        Ai {
            address: OutboundUrl::parse(address).unwrap(),
            model: "m".to_owned(),
            key: Some("sk-x".to_owned()),
        }
    }

    #[test]
    fn each_provider_gets_its_request_format() {
        let header = |address: &str| ai(address).call("i", "q").headers.pop().unwrap();
        assert_eq!(
            header("https://api.openai.com/v1/chat/completions"),
            ("authorization".into(), "Bearer sk-x".into())
        );
        assert_eq!(
            header(
                "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1"
            ),
            ("api-key".into(), "sk-x".into())
        );
        assert_eq!(
            header("https://api.anthropic.com/v1/messages"),
            ("x-api-key".into(), "sk-x".into())
        );
        assert_eq!(
            ai("http://127.0.0.1:1/v1/chat/completions")
                .call("i", "q")
                .body,
            r#"{"model":"m","messages":[{"role":"system","content":"i"},{"role":"user","content":"q"}]}"#
        );
        assert_eq!(
            ai("http://127.0.0.1:1/v1/messages").call("i", "q").body,
            r#"{"model":"m","max_tokens":1024,"system":"i","messages":[{"role":"user","content":"q"}]}"#
        );
        assert_eq!(
            header("https://x.openai.azure.cn/openai/deployments/d/chat/completions").0,
            "api-key"
        );
        assert_eq!(
            header("https://api.anthropic.com/v1/chat/completions").0,
            "authorization"
        );
        // A look-alike host must not receive the key in Anthropic's header.
        assert_eq!(
            header("https://notanthropic.com/v1/chat/completions").0,
            "authorization"
        );
        assert_eq!(
            header("https://openai.azure.com.example.org/v1/chat/completions").0,
            "authorization"
        );
    }

    #[test]
    fn answers_are_read_from_each_response_format() {
        let message_of = |address: &str, code, body: &str| {
            ai(address).message(&OutboundResponse {
                code,
                body: body.to_owned(),
            })
        };
        let (openai, anthropic) = ("http://h/v1/chat/completions", "http://h/v1/messages");
        assert_eq!(
            message_of(openai, 200, r#"{"choices":[{"message":{"content":"a"}}]}"#).unwrap(),
            "a"
        );
        assert_eq!(
            message_of(
                anthropic,
                200,
                r#"{"content":[{"type":"thinking"},{"type":"text","text":"a"}]}"#
            )
            .unwrap(),
            "a"
        );
        assert_eq!(
            message_of(openai, 200, r#"{"choices":[]}"#)
                .unwrap_err()
                .to_string(),
            "http://h returned no message"
        );
        assert_eq!(
            message_of(openai, 200, "<html>").unwrap_err().to_string(),
            "http://h did not return JSON"
        );
        assert_eq!(
            message_of(openai, 401, "sk-x").unwrap_err().to_string(),
            "http://h returned 401: the key is missing or was rejected"
        );
    }
}
