//! The address of Prometheus, its credentials, and the HTTP client built from both.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use prometheus_http_query::Client;
use prometheus_http_query::reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use prometheus_http_query::reqwest::redirect::Policy;
use prometheus_http_query::reqwest::{Certificate, ClientBuilder, Identity, Url};

use super::QueryError;
use super::aws::{AwsKeys, Signing};
use gpuctl_core::model::secrets::{shown_error, shown_url};

/// Credentials for Prometheus. Messages and logs never contain them.
#[derive(Clone, Default)]
pub struct Credentials {
    pub user: Option<(String, String)>,
    pub token: Option<String>,
    /// A shell command that prints a token.
    pub token_command: Option<String>,
    /// A client certificate and its key, in PEM format.
    pub identity: Option<Vec<u8>>,
    /// CA certificates that verify the server, in PEM format.
    pub authority: Option<Vec<u8>>,
    pub headers: Vec<(String, String)>,
    /// AWS keys from the environment, for servers that require signed requests.
    pub aws_keys: Option<AwsKeys>,
    /// AWS region for signing, if the address does not contain it.
    pub aws_region: Option<String>,
}

/// Error for a header that HTTP cannot represent.
#[derive(Debug, thiserror::Error)]
enum HeaderError {
    #[error("`{0}` is not a valid header name")]
    Name(String),
    #[error("the value of header `{0}` contains invalid characters")]
    Value(String),
}

impl Credentials {
    /// Returns true if any credentials were configured.
    pub fn are_given(&self) -> bool {
        self.user.is_some()
            || self.token.is_some()
            || self.token_command.is_some()
            || self.identity.is_some()
            || self.aws_region.is_some()
            || !self.headers.is_empty()
    }

    /// Returns a hash that identifies the credentials without revealing them. Caches use it,
    /// because different credentials may see different data.
    pub fn fingerprint(&self) -> String {
        use aws_lc_rs::digest::{SHA256, digest};
        let account = self
            .aws_keys
            .as_ref()
            .map(|keys| &keys.access_key_id)
            .zip(self.aws_region.as_ref());
        let parts = format!(
            "{:?}",
            (
                &self.user,
                &self.token,
                &self.token_command,
                &self.identity,
                &self.headers,
                account
            )
        );
        digest(&SHA256, parts.as_bytes())
            .as_ref()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    fn headers(&self) -> Result<HeaderMap, HeaderError> {
        let mut map = HeaderMap::new();
        let mut add = |name: &str, value: &str| {
            let name: HeaderName = name
                .trim()
                .parse()
                .map_err(|_| HeaderError::Name(name.to_string()))?;
            let mut value = HeaderValue::from_str(value.trim())
                .map_err(|_| HeaderError::Value(name.to_string()))?;
            // `Debug` output then hides the value.
            value.set_sensitive(true);
            map.insert(name, value);
            Ok::<_, HeaderError>(())
        };
        if let Some((user, password)) = &self.user {
            add(
                AUTHORIZATION.as_str(),
                &format!(
                    "Basic {}",
                    BASE64_STANDARD.encode(format!("{user}:{password}"))
                ),
            )?;
        }
        if let Some(token) = &self.token {
            add(AUTHORIZATION.as_str(), &format!("Bearer {token}"))?;
        }
        self.headers
            .iter()
            .try_for_each(|(name, value)| add(name, value))?;
        Ok(map)
    }
}

/// The URL of a Prometheus server with its credentials.
#[derive(Clone)]
pub struct PrometheusAddress {
    url: Url,
    credentials: Credentials,
    signing: Option<Signing>,
}

/// Time limit for establishing a connection. Reachable servers connect much faster.
const CONNECT: Duration = Duration::from_secs(5);
/// Maximum number of redirects, all to the original host.
const MOST_REDIRECTS: usize = 5;

impl PrometheusAddress {
    /// Parses an address. Moves a user and password in the URL into the credentials.
    pub fn parse(text: &str, mut credentials: Credentials) -> Result<Self, QueryError> {
        // Users may omit the scheme: `prometheus:9090`.
        let address = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let bad = |cause: &str| QueryError::BadAddress {
            url: shown_url(text),
            cause: cause.to_owned(),
        };
        let mut url = Url::parse(&address).map_err(|error| bad(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(bad(
                "an address must start with http:// or https://, followed by a host",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let password = url.password().unwrap_or_default();
            credentials.user = Some((decoded(url.username()), decoded(password)));
            let cleared = url.set_username("").and_then(|()| url.set_password(None));
            cleared.map_err(|()| bad("it cannot contain a user name"))?;
        }
        if url.scheme() == "http"
            && url
                .host_str()
                .is_some_and(|host| Signing::region_of(host).is_some())
        {
            return Err(bad("Amazon's service only supports https://"));
        }
        let region = credentials
            .aws_region
            .as_deref()
            .or_else(|| url.host_str().and_then(Signing::region_of));
        let signing = region.map(|region| Signing {
            region: region.to_owned(),
            keys: credentials.aws_keys.clone(),
        });
        Ok(Self {
            url,
            credentials,
            signing,
        })
    }

    /// Runs the commands that print credentials, and adds the printed token or AWS keys.
    pub async fn authenticate(mut self) -> Result<Self, QueryError> {
        if let (None, Some(command)) = (&self.credentials.token, &self.credentials.token_command) {
            self.credentials.token = Some(super::token::from_command(command).await?);
        }
        if let Some(signing) = self.signing.take() {
            self.signing = Some(signing.with_keys().await?);
        }
        Ok(self)
    }

    pub(super) fn signing(&self) -> Option<Signing> {
        self.signing.clone()
    }

    /// Returns true if the store rejects regex matchers on metric names, as Google Cloud does.
    pub fn requires_exact_names(&self) -> bool {
        self.url.host_str() == Some("monitoring.googleapis.com")
    }

    /// Formats the URL without credentials, for messages.
    pub fn shown(&self) -> String {
        shown_url(self.url.as_str())
    }

    pub(super) fn client(&self) -> Result<Client, QueryError> {
        let bad = |cause: String| QueryError::BadAddress {
            url: self.shown(),
            cause,
        };
        let mut builder = ClientBuilder::new()
            .connect_timeout(CONNECT)
            .default_headers(
                self.credentials
                    .headers()
                    .map_err(|error| bad(error.to_string()))?,
            )
            .redirect(Policy::custom(|attempt| {
                // Compare with the first URL instead of the previous one, so that several hops
                // cannot leave the host.
                let first = attempt.previous().first();
                let same = first.is_some_and(|first| {
                    let next = attempt.url();
                    // A redirect from http to https on the default port also changes the port.
                    let upgraded = first.scheme() == "http"
                        && next.scheme() == "https"
                        && first.port().is_none();
                    let same_port = first.scheme() == next.scheme()
                        && first.port_or_known_default() == next.port_or_known_default();
                    first.host_str() == next.host_str()
                        && (same_port || upgraded && next.port().is_none())
                });
                // Credentials and custom headers must not reach another host.
                if same && attempt.previous().len() <= MOST_REDIRECTS {
                    attempt.follow()
                } else {
                    attempt.stop()
                }
            }));
        // Never use a proxy for loopback addresses: the proxy cannot reach this machine's loopback
        // interface.
        let is_loopback = self
            .url
            .host_str()
            .is_some_and(|host| host == "localhost" || host.starts_with("127.") || host == "[::1]");
        if is_loopback {
            builder = builder.no_proxy();
        }
        if let Some(pem) = &self.credentials.authority {
            let certificates = Certificate::from_pem_bundle(pem)
                .map_err(|_| bad("the file contains no certificates".to_owned()))?;
            builder = certificates
                .into_iter()
                .fold(builder, ClientBuilder::add_root_certificate);
        }
        if let Some(pem) = &self.credentials.identity {
            let identity = Identity::from_pem(pem).map_err(|_| {
                bad("the files do not contain a certificate and its key".to_owned())
            })?;
            builder = builder.identity(identity);
        }
        let client = builder
            .build()
            .map_err(|error| bad(error.without_url().to_string()))?;
        Client::from(client, self.url.as_str())
            .map_err(|error| bad(shown_error(&error.to_string())))
    }
}

/// Decodes percent-encoded characters such as `p%40ss`.
fn decoded(text: &str) -> String {
    // Escape `+` and `&`, which are literal in the user part of a URL. The form parser would read
    // them as a space and a separator.
    let pair = format!("x={}", text.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(pair.as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_address_has_no_password() {
        let address = PrometheusAddress::parse(
            "https://alice:secret@prom.example.com:9443/base/?x=1",
            Credentials::default(),
        )
        .unwrap();
        assert_eq!(address.shown(), "https://prom.example.com:9443/base");
        let headers = address.credentials.headers().unwrap();
        assert_eq!(headers[AUTHORIZATION], "Basic YWxpY2U6c2VjcmV0");
        assert!(!format!("{headers:?}").contains("YWxp"));
        let address = PrometheusAddress::parse(
            "https://:p%40ss%2B@prom.example.com",
            Credentials::default(),
        )
        .unwrap();
        assert_eq!(address.shown(), "https://prom.example.com");
        assert_eq!(
            address.credentials.user,
            Some((String::new(), "p@ss+".to_owned()))
        );
        assert_eq!(
            PrometheusAddress::parse("10.0.0.1:9090", Credentials::default())
                .unwrap()
                .shown(),
            "http://10.0.0.1:9090"
        );
        for bad in [
            "ftp://x",
            "http://",
            "http://al:secret@ho st",
            "http://aps-workspaces.eu-west-1.amazonaws.com/workspaces/w",
        ] {
            let trouble = PrometheusAddress::parse(bad, Credentials::default())
                .err()
                .unwrap();
            assert!(!format!("{trouble:?}").contains("secret"), "{trouble:?}");
        }
    }
}
