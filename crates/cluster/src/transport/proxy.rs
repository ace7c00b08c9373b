//! Chooses the proxy for requests to the API server as kubectl does: the kubeconfig's `proxy-url`,
//! or `HTTPS_PROXY` or `HTTP_PROXY` unless `NO_PROXY` names the server.
//!
//! kube 5.0 compares `NO_PROXY` with the address of the proxy instead of the server's, so gpuctl
//! does not use its choice.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// Why a proxy's address cannot be used. `origin` is the variable or field with the address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProxyError {
    #[error("{origin} is not a proxy address such as http://proxy.example.com:3128")]
    NoHost { origin: &'static str },
    #[error("{origin} is not a valid address")]
    NoAddress { origin: &'static str },
    #[error("{origin}: {cause}")]
    UnsupportedScheme { origin: &'static str, cause: String },
}

/// The proxy variables of the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProxyEnvironment {
    https: Option<String>,
    http: Option<String>,
    no: Option<String>,
}

impl ProxyEnvironment {
    /// Reads each variable in upper case, or in lower case if it is unset or empty.
    #[expect(
        clippy::disallowed_methods,
        reason = "these variables apply to all programs; they are not settings of gpuctl"
    )]
    pub(crate) fn from_process() -> Self {
        let set = |name: &str| {
            std::env::var(name)
                .ok()
                .filter(|value| !value.trim().is_empty())
        };
        let variable = |name: &str| set(name).or_else(|| set(&name.to_lowercase()));
        Self {
            https: variable("HTTPS_PROXY"),
            http: variable("HTTP_PROXY"),
            no: variable("NO_PROXY"),
        }
    }

    /// Returns the proxy for requests to `server`. `written` is the cluster's `proxy-url` in the
    /// kubeconfig, which `NO_PROXY` does not affect. Errors contain only the origin and the scheme
    /// of the address.
    pub(crate) fn proxy_to(
        &self,
        server: &Uri,
        configured: Option<&str>,
    ) -> Result<Option<Uri>, ProxyError> {
        if let Some(configured) = configured.filter(|configured| !configured.is_empty()) {
            return usable(configured, "`proxy-url` in the kubeconfig").map(Some);
        }
        let (value, name) = match server.scheme_str() {
            Some("http") => (&self.http, "HTTP_PROXY"),
            _ => (&self.https, "HTTPS_PROXY"),
        };
        let Some(value) = value else { return Ok(None) };
        let exclusions = self.no.as_deref().unwrap_or_default();
        // Handle `*` here, because the matcher accepts it only as part of a name.
        if exclusions.split(',').any(|entry| entry.trim() == "*") {
            return Ok(None);
        }
        // Pass the matcher a placeholder that always parses, because `NO_PROXY` depends only on the
        // server.
        let matcher = Matcher::builder()
            .all("http://proxy.invalid")
            .no(exclusions)
            .build();
        if matcher.intercept(server).is_none() {
            return Ok(None);
        }
        usable(value, name).map(Some)
    }
}

/// Parses the address of a proxy. `origin` is the variable or field with the address.
fn usable(value: &str, origin: &'static str) -> Result<Uri, ProxyError> {
    let value = value.trim();
    let url = if value.contains("://") {
        value.to_owned()
    } else {
        format!("http://{value}")
    };
    // `http://user:password` has no host, and the password is parsed as the port.
    let has_host = |uri: &Uri| {
        let authority = uri.authority().map_or("", |authority| {
            authority.as_str().rsplit('@').next().unwrap_or_default()
        });
        uri.host()
            .is_some_and(|host| !host.is_empty() && (host == authority || uri.port_u16().is_some()))
    };
    let Some(uri) = url.parse::<Uri>().ok().filter(has_host) else {
        return Err(ProxyError::NoHost { origin });
    };
    match uri.scheme_str() {
        Some("http" | "https" | "socks5") => Ok(uri),
        // kube supports only `socks5`, and lets the proxy resolve the server's name as `socks5h`
        // requires.
        Some("socks5h") => {
            let rest = url.split_once("://").map_or("", |(_, rest)| rest);
            format!("socks5://{rest}")
                .parse()
                .map_err(|_| ProxyError::NoAddress { origin })
        }
        _ => Err(ProxyError::UnsupportedScheme {
            origin,
            cause: unsupported(&uri),
        }),
    }
}

/// Describes a proxy with an unsupported scheme without its address.
pub(crate) fn unsupported(proxy: &Uri) -> String {
    let scheme = proxy.scheme_str().unwrap_or("");
    format!("unsupported proxy scheme `{scheme}`; use http, https, socks5 or socks5h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_is_about_the_server() {
        let environment = |exclusions: &str| ProxyEnvironment {
            https: Some("http://user:word@proxy.example.com:3128".to_owned()),
            http: Some("plain.example.com:3128".to_owned()),
            no: Some(exclusions.to_owned()).filter(|exclusions| !exclusions.is_empty()),
        };
        let proxy_of = |exclusions: &str, server: &str| {
            let proxy = environment(exclusions)
                .proxy_to(&server.parse().unwrap(), None)
                .unwrap();
            proxy.map(|uri| uri.authority().unwrap().to_string())
        };
        let proxied = Some("user:word@proxy.example.com:3128".to_owned());
        assert_eq!(proxy_of("", "https://10.1.2.3:6443"), proxied);
        assert_eq!(
            proxy_of("", "http://10.1.2.3:8080").as_deref(),
            Some("plain.example.com:3128")
        );
        for (exclusions, server) in [
            ("10.0.0.0/8", "https://10.1.2.3:6443"),
            ("10.1.2.3", "https://10.1.2.3:6443"),
            (".example.com", "https://api.k8s.example.com"),
            ("example.com,", "https://api.k8s.example.com:6443"),
            ("*", "https://10.1.2.3:6443"),
        ] {
            assert_eq!(
                proxy_of(exclusions, server),
                None,
                "NO_PROXY={exclusions} {server}"
            );
        }
        // A `NO_PROXY` entry for the proxy's own host must not match the server.
        assert_eq!(
            proxy_of("proxy.example.com", "https://10.1.2.3:6443"),
            proxied
        );
        assert_eq!(
            proxy_of("other.org", "https://api.k8s.example.com"),
            proxied
        );
    }

    #[test]
    fn the_proxy_of_the_kubeconfig_precedes_the_environment() {
        let environment = ProxyEnvironment {
            no: Some("*".to_owned()),
            ..ProxyEnvironment::default()
        };
        let server: Uri = "https://10.1.2.3:6443".parse().unwrap();
        let configured = environment.proxy_to(&server, Some("socks5://127.0.0.1:1080"));
        assert_eq!(
            configured.unwrap().unwrap().to_string(),
            "socks5://127.0.0.1:1080/"
        );
        assert_eq!(environment.proxy_to(&server, None), Ok(None));
        assert_eq!(
            ProxyEnvironment::default().proxy_to(&server, Some("")),
            Ok(None)
        );
    }

    #[test]
    fn an_unusable_proxy_is_an_error_without_its_password() {
        let server: Uri = "https://10.1.2.3:6443".parse().unwrap();
        let https = |text: &str| ProxyEnvironment {
            https: Some(text.to_owned()),
            ..ProxyEnvironment::default()
        };
        assert_eq!(
            https("socks5h://u:CANARY@127.0.0.1:1")
                .proxy_to(&server, None)
                .unwrap()
                .unwrap()
                .to_string(),
            "socks5://u:CANARY@127.0.0.1:1/"
        );
        for proxy in [
            "socks4://u:CANARY@h:1",
            "socks4a://u:CANARY@h",
            "gopher://u:CANARY@h",
            "u:CANARY @h",
            "http://u:CANARY",
        ] {
            let error = https(proxy)
                .proxy_to(&server, None)
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("HTTPS_PROXY") && !error.contains("CANARY"),
                "{error}"
            );
            let error = ProxyEnvironment::default()
                .proxy_to(&server, Some(proxy))
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("`proxy-url`") && !error.contains("CANARY"),
                "{error}"
            );
        }
    }
}
