//! Parses where a report is sent: a webhook, a mail server or a file. Credentials are not part of
//! it, because other users of the machine can read the arguments of a program.

use std::path::PathBuf;

use anyhow::anyhow;

use super::OutboundUrl;
use super::mail::MailRoute;

/// A receiver of reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReportDestination {
    Webhook(OutboundUrl),
    Mail(MailRoute),
    /// A file, or a folder in which each report gets a new file.
    File(PathBuf),
}

impl ReportDestination {
    /// Parses a URL or a path. Errors do not quote it, because a URL may contain a secret.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        let Some((scheme, _)) = text.split_once("://") else {
            return match text.is_empty() {
                true => Err(anyhow!("a receiver cannot be empty")),
                false => Ok(Self::File(PathBuf::from(text))),
            };
        };
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => {
                let url = OutboundUrl::parse(text)?;
                if url.has_user() {
                    return Err(anyhow!(
                        "a webhook URL cannot contain a user or a password; use `report.headers` \
                         in the config file"
                    ));
                }
                Ok(Self::Webhook(url))
            }
            "smtp" | "smtps" => Ok(Self::Mail(MailRoute::parse(text)?)),
            _ => Err(anyhow!(
                "a receiver is an http://, https://, smtp:// or smtps:// URL, or a path"
            )),
        }
    }

    /// Describes the receiver without the parts that may be secret.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Webhook(url) => url.origin(),
            Self::Mail(route) => route.shown(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_told_apart_by_their_scheme() {
        let parsed = |text: &str| ReportDestination::parse(text).map_err(|error| error.to_string());
        assert_eq!(
            parsed("/reports/"),
            Ok(ReportDestination::File("/reports/".into()))
        );
        assert_eq!(
            parsed("week.html"),
            Ok(ReportDestination::File("week.html".into()))
        );
        let webhook = parsed("https://hooks.example.com/secret?key=1").unwrap();
        assert_eq!(webhook.shown(), "https://hooks.example.com");
        let mail = parsed("smtp://mail.example.com?from=a@example.com&to=b@example.com").unwrap();
        assert_eq!(
            mail.shown(),
            "mail.example.com:587 (from a@example.com, to b@example.com)"
        );
        for refused in [
            "",
            "ftp://example.com/x",
            "https://user:canary@example.com/x",
            "https://canary@example.com/x",
            "smtp://user:canary@example.com?from=a@example.com&to=b@example.com",
            "http://",
        ] {
            let error = parsed(refused).unwrap_err();
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
