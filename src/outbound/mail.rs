//! Sends mail over SMTP. Connections are encrypted unless the URL disables that, and credentials
//! are never sent unencrypted.
//!
//! Sources: RFC 6409 (submission, port 587), RFC 8314 (implicit TLS, port 465).

use std::time::Duration;

use anyhow::anyhow;
use lettre::message::header::ContentType;
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use reqwest::Url;

use super::innermost;

/// How the connection to the mail server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MailEncryption {
    /// The connection begins with TLS (`smtps://`).
    Implicit,
    /// The server must offer STARTTLS (`smtp://`).
    StartTls,
    /// Unencrypted (`smtp://…?tls=none`), for a relay inside the cluster.
    None,
}

/// A mail server, the sender and the recipients.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MailRoute {
    host: String,
    port: u16,
    encryption: MailEncryption,
    from: Mailbox,
    to: Vec<Mailbox>,
}

/// The credentials for a mail server. All are optional: relays often need none.
#[derive(Clone, Copy)]
pub(crate) struct MailCredentials<'a> {
    pub user: Option<&'a str>,
    pub password: Option<&'a str>,
    /// PEM certificates that verify the server, in addition to those of the system.
    pub authority: Option<&'a [u8]>,
}

/// A mail with one attachment.
#[derive(Clone, Debug)]
pub(crate) struct OutboundMail {
    pub subject: String,
    pub text: String,
    pub file_name: String,
    /// The media type of the attachment, such as `text/html`.
    pub media: &'static str,
    pub attachment: String,
}

impl MailRoute {
    /// Parses `smtp://HOST[:PORT]?from=ADDRESS&to=ADDRESS[,ADDRESS]`. Errors do not quote it.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let url = Url::parse(text).map_err(|error| anyhow!("invalid mail URL: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(anyhow!(
                "a mail URL cannot contain a user or a password; use GPUCTL_SMTP_USER and \
                 GPUCTL_SMTP_PASSWORD"
            ));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| anyhow!("a mail URL must include a host"))?;
        let (mut from, mut to, mut is_plain) = (None, Vec::new(), false);
        for (key, value) in url.query_pairs() {
            match (key.as_ref(), value.as_ref()) {
                ("from", value) => from = Some(address("from", value)?),
                ("to", value) => {
                    let addresses = value.split(',').map(|one| address("to", one));
                    to.extend(addresses.collect::<anyhow::Result<Vec<_>>>()?);
                }
                ("tls", "none") => is_plain = true,
                _ => {
                    return Err(anyhow!(
                        "a mail URL has the parameters from, to and tls=none, and no others"
                    ));
                }
            }
        }
        let encryption = match (url.scheme(), is_plain) {
            ("smtps", true) => return Err(anyhow!("smtps:// cannot be used with tls=none")),
            ("smtps", false) => MailEncryption::Implicit,
            (_, true) => MailEncryption::None,
            (_, false) => MailEncryption::StartTls,
        };
        let default_port = match encryption {
            MailEncryption::Implicit => 465,
            MailEncryption::StartTls => 587,
            MailEncryption::None => 25,
        };
        let missing = || anyhow!("a mail URL needs from=ADDRESS and to=ADDRESS");
        if to.is_empty() {
            return Err(missing());
        }
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(default_port),
            encryption,
            from: from.ok_or_else(missing)?,
            to,
        })
    }

    /// Describes the server, the sender and the recipients.
    pub(crate) fn shown(&self) -> String {
        let to: Vec<String> = self.to.iter().map(ToString::to_string).collect();
        let unencrypted = match self.encryption {
            MailEncryption::None => ", unencrypted",
            _ => "",
        };
        format!(
            "{}:{} (from {}, to {}{unencrypted})",
            self.host,
            self.port,
            self.from,
            to.join(", ")
        )
    }

    /// Sends a mail. Errors name the server and its answer.
    pub(crate) async fn send(
        &self,
        mail: OutboundMail,
        credentials: MailCredentials<'_>,
        timeout: Duration,
    ) -> anyhow::Result<()> {
        let server = format!("{}:{}", self.host, self.port);
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&self.host)
            .port(self.port)
            .tls(self.tls(credentials.authority)?)
            .timeout(Some(timeout));
        match (credentials.user, credentials.password) {
            (Some(_), Some(_)) if self.encryption == MailEncryption::None => {
                return Err(anyhow!(
                    "the password is not sent to {server}, because tls=none disables encryption"
                ));
            }
            (Some(user), Some(password)) => {
                let credentials = Credentials::new(user.to_owned(), password.to_owned());
                transport = transport.credentials(credentials);
            }
            (None, None) => {}
            _ => return Err(anyhow!("a mail server needs both a user and a password")),
        }
        let message = self.message(mail)?;
        let transport = transport.build::<Tokio1Executor>();
        // The timeout of the transport covers single commands.
        let limit = timeout.saturating_mul(2);
        let sent = tokio::time::timeout(limit, transport.send(message)).await;
        let sent = sent.map_err(|_| anyhow!("{server} did not accept the mail in time"))?;
        sent.map_err(|error| anyhow!("{server} did not accept the mail: {}", innermost(&error)))?;
        Ok(())
    }

    fn tls(&self, authority: Option<&[u8]>) -> anyhow::Result<Tls> {
        if self.encryption == MailEncryption::None {
            return Ok(Tls::None);
        }
        let mut parameters = TlsParameters::builder(self.host.clone());
        if let Some(pem) = authority {
            let certificate = Certificate::from_pem(pem)
                .map_err(|error| anyhow!("invalid `smtp.ca_file`: {}", innermost(&error)))?;
            parameters = parameters.add_root_certificate(certificate);
        }
        let parameters = parameters
            .build()
            .map_err(|error| anyhow!("cannot set up TLS: {}", innermost(&error)))?;
        Ok(match self.encryption {
            MailEncryption::Implicit => Tls::Wrapper(parameters),
            _ => Tls::Required(parameters),
        })
    }

    fn message(&self, mail: OutboundMail) -> anyhow::Result<Message> {
        let media = ContentType::parse(&format!("{}; charset=utf-8", mail.media))
            .map_err(|error| anyhow!("invalid media type: {error}"))?;
        let parts = MultiPart::mixed()
            .singlepart(SinglePart::plain(mail.text))
            .singlepart(Attachment::new(mail.file_name).body(mail.attachment, media));
        let message = Message::builder()
            .from(self.from.clone())
            .subject(mail.subject)
            .message_id(None)
            .user_agent(concat!("gpuctl/", env!("CARGO_PKG_VERSION")).to_owned());
        self.to
            .iter()
            .fold(message, |message, to| message.to(to.clone()))
            .multipart(parts)
            .map_err(|error| anyhow!("cannot write the mail: {error}"))
    }
}

fn address(parameter: &str, text: &str) -> anyhow::Result<Mailbox> {
    text.trim()
        .parse()
        .map_err(|_| anyhow!("`{parameter}` in the mail URL is not a mail address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(text: &str) -> anyhow::Result<MailRoute> {
        MailRoute::parse(text)
    }

    const ENDS: &str = "from=gpu@example.com&to=a@example.com,b@example.com";

    #[test]
    fn ports_and_encryption_follow_from_the_scheme() {
        let of = |text: &str| {
            let route = route(text).unwrap();
            (route.port, route.encryption)
        };
        let host = "mail.example.com";
        assert_eq!(
            of(&format!("smtp://{host}?{ENDS}")),
            (587, MailEncryption::StartTls)
        );
        assert_eq!(
            of(&format!("smtps://{host}?{ENDS}")),
            (465, MailEncryption::Implicit)
        );
        assert_eq!(
            of(&format!("smtp://{host}:2525?tls=none&{ENDS}")),
            (2525, MailEncryption::None)
        );
        for invalid in [
            format!("smtp://{host}"),
            format!("smtp://{host}?from=gpu@example.com"),
            format!("smtp://{host}?to=gpu@example.com"),
            format!("smtp://{host}?{ENDS}&password=canary"),
            format!("smtps://{host}?{ENDS}&tls=none"),
            format!("smtp://?{ENDS}"),
            "smtp://mail?from=gpu&to=a@example.com".to_owned(),
        ] {
            let error = route(&invalid).unwrap_err().to_string();
            assert!(!error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn a_mail_has_a_text_and_the_report_as_attachment() {
        let mail = OutboundMail {
            subject: "GPU-hours by team in prod".to_owned(),
            text: "held 4.0\n".to_owned(),
            file_name: "gpu-report-prod-2026-11-27.html".to_owned(),
            media: "text/html",
            attachment: "<!DOCTYPE html>".to_owned(),
        };
        let route = route(&format!("smtp://mail.example.com?{ENDS}")).unwrap();
        let message = route.message(mail).unwrap();
        let text = String::from_utf8(message.formatted()).unwrap();
        for part in [
            "From: gpu@example.com\r\n",
            "To: a@example.com, b@example.com\r\n",
            "Subject: GPU-hours by team in prod\r\n",
            "held 4.0",
            "filename=\"gpu-report-prod-2026-11-27.html\"",
            "<!DOCTYPE html>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
