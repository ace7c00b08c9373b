//! Decides whether requests to the API server go through a proxy, as kubectl does: the kubeconfig's `proxy-url`, else
//! `HTTPS_PROXY` or `HTTP_PROXY` unless `NO_PROXY` names the server.
//!
//! Note: kube 5.0 holds `NO_PROXY` against the address of the proxy instead of that of the server, so its answer is not used.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// What the environment says of proxies.
#[derive(Clone, Debug, Default)]
pub(super) struct ProxyEnvironment {
    https: Option<String>,
    http: Option<String>,
    no: Option<String>,
}

impl ProxyEnvironment {
    /// Reads the variables in capitals, else in small letters; an empty one is none.
    #[expect(clippy::disallowed_methods, reason = "these variables are of every program, not settings of ours")]
    pub(super) fn of_process() -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let either = |name: &str| set(name).or_else(|| set(&name.to_lowercase()));
        Self { https: either("HTTPS_PROXY"), http: either("HTTP_PROXY"), no: either("NO_PROXY") }
    }

    /// Returns the proxy on the way to `server`. `written` is the `proxy-url` of its cluster in the kubeconfig, which `NO_PROXY` does
    /// not concern. A variable that is no address is none.
    #[must_use]
    pub(super) fn proxy_to(&self, server: &Uri, written: Option<&str>) -> Option<Uri> {
        if let Some(written) = written.filter(|written| !written.is_empty()) {
            return written.parse().ok();
        }
        let own = if server.scheme_str() == Some("http") { &self.http } else { &self.https };
        let own = own.as_ref()?;
        let no = self.no.as_deref().unwrap_or_default();
        // The matcher takes a star for names only.
        if no.split(',').any(|entry| entry.trim() == "*") {
            return None;
        }
        let all = if own.contains("://") { own.clone() } else { format!("http://{own}") };
        let matcher = Matcher::builder().all(all.clone()).no(no).build();
        matcher.intercept(server)?;
        all.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_is_about_the_server() {
        let environment = |no: &str| ProxyEnvironment {
            https: Some("http://user:word@proxy.example.com:3128".to_owned()),
            http: Some("plain.example.com:3128".to_owned()),
            no: Some(no.to_owned()).filter(|no| !no.is_empty()),
        };
        let way = |no: &str, server: &str| {
            let found = environment(no).proxy_to(&server.parse().unwrap(), None);
            found.map(|uri| uri.authority().unwrap().to_string())
        };
        let through = Some("user:word@proxy.example.com:3128".to_owned());
        assert_eq!(way("", "https://10.1.2.3:6443"), through);
        assert_eq!(way("", "http://10.1.2.3:8080").as_deref(), Some("plain.example.com:3128"));
        for (no, server) in [
            ("10.0.0.0/8", "https://10.1.2.3:6443"),
            ("10.1.2.3", "https://10.1.2.3:6443"),
            (".example.com", "https://api.k8s.example.com"),
            ("example.com,", "https://api.k8s.example.com:6443"),
            ("*", "https://10.1.2.3:6443"),
        ] {
            assert_eq!(way(no, server), None, "NO_PROXY={no} {server}");
        }
        // What names the proxy says nothing of the server.
        assert_eq!(way("proxy.example.com", "https://10.1.2.3:6443"), through);
        assert_eq!(way("other.org", "https://api.k8s.example.com"), through);
    }

    #[test]
    fn a_proxy_of_the_kubeconfig_is_meant_whatever_the_environment_says() {
        let environment = ProxyEnvironment { no: Some("*".to_owned()), ..ProxyEnvironment::default() };
        let server: Uri = "https://10.1.2.3:6443".parse().unwrap();
        let written = environment.proxy_to(&server, Some("socks5://127.0.0.1:1080"));
        assert_eq!(written.unwrap().to_string(), "socks5://127.0.0.1:1080/");
        assert_eq!(environment.proxy_to(&server, None), None);
        assert_eq!(ProxyEnvironment::default().proxy_to(&server, Some("")), None);
    }
}
