//! Sends chat messages in the format and with the signature of each service.
//!
//! Most services respond with status 200 even if they refuse a message, so the body decides.
//!
//! Sources: Feishu/Lark «custom bot usage guide», DingTalk «custom robot security settings», WeCom
//! «group robot», Slack «incoming webhooks».

use anyhow::anyhow;
use serde_json::{Value, json};

use super::{OutboundCall, OutboundResponse, OutboundUrl, signature};

/// Chat services with different formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Robot {
    /// Also Lark, which is the same service outside China.
    Feishu,
    Slack,
    DingTalk,
    Wecom,
    /// Any other service that accepts JSON.
    Generic,
}

impl Robot {
    /// Selects a service by its name in the config file. `auto` selects by the URL's host.
    pub(crate) fn from_setting(name: &str, address: &OutboundUrl) -> Self {
        let host = address.host();
        let is_at = |domain: &str| host == domain || host.ends_with(&format!(".{domain}"));
        match name {
            "feishu" | "lark" => Self::Feishu,
            "slack" => Self::Slack,
            "dingtalk" => Self::DingTalk,
            "wecom" => Self::Wecom,
            "generic" => Self::Generic,
            _ if is_at("feishu.cn") || is_at("larksuite.com") || is_at("larkoffice.com") => {
                Self::Feishu
            }
            _ if is_at("slack.com") => Self::Slack,
            _ if is_at("dingtalk.com") => Self::DingTalk,
            _ if is_at("qyapi.weixin.qq.com") => Self::Wecom,
            _ => Self::Generic,
        }
    }

    /// Maximum length of a message in bytes.
    pub(crate) fn max_length(self) -> usize {
        match self {
            Self::Wecom => 2048,
            Self::Feishu | Self::DingTalk => 18_000,
            Self::Slack => 30_000,
            Self::Generic => 1 << 20,
        }
    }

    /// Builds the call that sends a message. `now` is in Unix milliseconds, because some signatures
    /// include the time. A generic service receives `payload` with the text added.
    pub(crate) fn call(
        self,
        address: &OutboundUrl,
        secret: Option<&str>,
        now: i64,
        text: &str,
        mut payload: Value,
    ) -> OutboundCall {
        let mut address = address.clone();
        let body = match self {
            Self::Feishu => {
                let mut body = serde_json::Map::new();
                if let Some(secret) = secret {
                    let seconds = (now / 1000).to_string();
                    // Feishu uses the text as the HMAC key and signs an empty message.
                    let sign = signature(&format!("{seconds}\n{secret}"), "");
                    body.insert("timestamp".to_owned(), json!(seconds));
                    body.insert("sign".to_owned(), json!(sign));
                }
                body.insert("msg_type".to_owned(), json!("text"));
                body.insert("content".to_owned(), json!({ "text": text }));
                Value::Object(body)
            }
            Self::Slack => {
                // Slack requires entities for exactly these three characters.
                json!({ "text": text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;") })
            }
            Self::DingTalk => {
                if let Some(secret) = secret {
                    let now = now.to_string();
                    let sign = signature(secret, &format!("{now}\n{secret}"));
                    address = address.with_query(&[("timestamp", &now), ("sign", &sign)]);
                }
                json!({"msgtype": "text", "text": {"content": text}})
            }
            Self::Wecom => json!({"msgtype": "text", "text": {"content": text}}),
            Self::Generic => {
                payload["text"] = json!(text);
                payload
            }
        };
        OutboundCall {
            address,
            headers: Vec::new(),
            body: body.to_string(),
        }
    }

    /// Checks that the service accepted the message. The error quotes the response.
    pub(crate) fn check_accepted(
        self,
        address: &OutboundUrl,
        answer: &OutboundResponse,
    ) -> anyhow::Result<()> {
        let shown_url = address.origin();
        if !(200..300).contains(&answer.code) {
            return Err(anyhow!("{shown_url} returned {}", answer.code));
        }
        let keys: &[&str] = match self {
            Self::Feishu => &["code", "StatusCode"],
            Self::DingTalk | Self::Wecom => &["errcode"],
            Self::Slack | Self::Generic => return Ok(()),
        };
        let body: Value = serde_json::from_str(&answer.body)
            .map_err(|_| anyhow!("{shown_url} did not return JSON"))?;
        match keys.iter().find_map(|key| body[key].as_i64()) {
            Some(0) => Ok(()),
            Some(code) => {
                let reason = ["msg", "errmsg", "StatusMessage"]
                    .iter()
                    .find_map(|key| body[key].as_str())
                    .unwrap_or_default();
                let reason: String = reason
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(200)
                    .collect();
                Err(anyhow!("{shown_url} rejected the message: {code} {reason}"))
            }
            None => Err(anyhow!(
                "{shown_url} did not confirm that it accepted the message"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> OutboundUrl {
        OutboundUrl::parse(text).unwrap()
    }

    #[test]
    fn signatures_are_as_openssl_makes_them() {
        // printf '' | openssl dgst -sha256 -hmac "$(printf '1599360473\nabc')" -binary | base64
        let call = Robot::Feishu.call(
            &at("http://h/x"),
            Some("abc"),
            1_599_360_473_123,
            "t",
            json!({}),
        );
        assert_eq!(
            call.body,
            r#"{"timestamp":"1599360473","sign":"cgtpJzI2j6bUDggbdGYjskCK3FPgKpTkwosfWsMzKqM=","msg_type":"text","content":{"text":"t"}}"#
        );
        // printf '1599360473123\nabc' | openssl dgst -sha256 -hmac abc -binary | base64
        let call = Robot::DingTalk.call(
            &at("http://h/x?access_token=1"),
            Some("abc"),
            1_599_360_473_123,
            "t",
            json!({}),
        );
        assert_eq!(
            call.address.as_str(),
            "http://h/x?access_token=1&timestamp=1599360473123&sign=tncF%2ByZDoVSGohY%2F0S9s%2B2OsFI3mrG8axyNtxv%2FjLwo%3D"
        );
        assert_eq!(call.body, r#"{"msgtype":"text","text":{"content":"t"}}"#);
    }

    #[test]
    fn a_robot_is_known_by_its_host() {
        let robot_of = |url: &str| Robot::from_setting("auto", &at(url));
        assert_eq!(
            robot_of("https://open.feishu.cn/open-apis/bot/v2/hook/x"),
            Robot::Feishu
        );
        assert_eq!(
            robot_of("https://open.larksuite.com/open-apis/bot/v2/hook/x"),
            Robot::Feishu
        );
        assert_eq!(robot_of("https://hooks.slack.com/services/x"), Robot::Slack);
        assert_eq!(
            robot_of("https://oapi.dingtalk.com/robot/send?access_token=x"),
            Robot::DingTalk
        );
        assert_eq!(
            robot_of("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=x"),
            Robot::Wecom
        );
        assert_eq!(robot_of("https://notslack.com/x"), Robot::Generic);
        assert_eq!(
            Robot::from_setting("slack", &at("http://127.0.0.1:1/")),
            Robot::Slack
        );
    }

    #[test]
    fn a_refusal_comes_with_status_200() {
        let took = |robot: Robot, code, body: &str| {
            let answer = OutboundResponse {
                code,
                body: body.to_owned(),
            };
            robot
                .check_accepted(&at("http://h/secret"), &answer)
                .map_err(|error| error.to_string())
        };
        assert_eq!(
            took(Robot::Feishu, 200, r#"{"code":0,"msg":"success"}"#),
            Ok(())
        );
        assert_eq!(took(Robot::Feishu, 200, r#"{"StatusCode":0}"#), Ok(()));
        let refused = took(
            Robot::Feishu,
            200,
            r#"{"code":19021,"msg":"sign match fail"}"#,
        )
        .unwrap_err();
        assert_eq!(
            refused,
            "http://h rejected the message: 19021 sign match fail"
        );
        assert!(
            took(
                Robot::Wecom,
                200,
                r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#
            )
            .is_err()
        );
        assert!(
            took(Robot::DingTalk, 200, "{}").is_err() && took(Robot::DingTalk, 200, "ok").is_err()
        );
        assert_eq!(took(Robot::Slack, 200, "ok"), Ok(()));
        assert_eq!(
            took(Robot::Generic, 500, ""),
            Err("http://h returned 500".to_owned())
        );
    }
}
