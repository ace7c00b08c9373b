//! Validates the paths of requests. Objects refer to each other by names that users choose, and a
//! name such as `x/proxy/admin` must not turn the read of an object into a request to another
//! program.
//!
//! [`is_segment`] validates a name before it becomes a path segment, and [`check`] validates every
//! path before the request is sent.

use serde::de::DeserializeOwned;

use crate::{Connection, Failure};

/// Subresources that gpuctl reads or writes. Requests to `proxy` reach another program, so it is
/// excluded.
const SUBRESOURCES: [&str; 7] = [
    "attach",
    "eviction",
    "exec",
    "log",
    "pendingworkloads",
    "portforward",
    "scale",
];

/// The program that answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    ApiServer,
    /// The program behind a Service or a pod, through the API server's proxy.
    Proxied,
}

/// Returns true if Kubernetes accepts `text` as an object's name and it is one path segment.
pub(crate) fn is_segment(text: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(is_safe)
        && !text.bytes().all(|byte| byte == b'.')
}

/// Returns true if `text` is an API version: `v1`, or a group and a version.
pub(crate) fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    parts.len() <= 2 && parts.iter().all(|part| is_segment(part))
}

/// Rejects a path that the API server would parse differently from the code that built it.
pub(crate) fn check(path: &str, destination: Destination) -> Result<(), Failure> {
    let (resource, query) = path.split_once('?').unwrap_or((path, ""));
    let is_valid = match destination {
        // Encoded parameters contain neither `/` nor `?`. If one of them is left, a name with a `?`
        // has truncated the path.
        Destination::ApiServer => is_of_api(resource) && !query.contains(['/', '?']),
        Destination::Proxied => is_proxied(resource),
    };
    if is_valid {
        Ok(())
    } else {
        Err(Failure::no_path(path))
    }
}

/// Splits a path into segments. Names of RBAC objects may contain `:`.
fn segments(resource: &str) -> Option<Vec<&str>> {
    let segments: Vec<&str> = resource.strip_prefix('/')?.split('/').collect();
    let is_valid = |segment: &&str| {
        segment
            .split(':')
            .all(|part| part.is_empty() || is_segment(part))
    };
    (segments.iter().all(|segment| !segment.is_empty()) && segments.iter().all(is_valid))
        .then_some(segments)
}

/// Returns the segments after the group, version and namespace: the plural, a name and a
/// subresource.
fn below_namespace<'s, 'p>(segments: &'s [&'p str]) -> Option<&'s [&'p str]> {
    // Paths of discovery and `/version` address no object.
    let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = segments else {
        return None;
    };
    match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => Some(rest),
        rest => Some(rest),
    }
}

fn is_of_api(resource: &str) -> bool {
    let Some(segments) = segments(resource) else {
        return false;
    };
    match below_namespace(&segments) {
        None | Some([] | [_] | [_, _]) => true,
        Some([_, _, part]) => SUBRESOURCES.contains(part),
        Some(_) => false,
    }
}

/// Returns true if the path uses the proxy of a Service or pod, which forwards the rest of the
/// path.
fn is_proxied(resource: &str) -> bool {
    let Some((object, _)) = resource.split_once("/proxy/") else {
        return false;
    };
    let Some(segments) = segments(object) else {
        return false;
    };
    matches!(
        segments.as_slice(),
        ["api", "v1", "namespaces", _, "services" | "pods", _]
    )
}

impl Connection {
    /// Reads the object `name` of a collection. Returns `None` if `name` is not one path segment.
    pub async fn find_in<T: DeserializeOwned>(
        &self,
        collection: &str,
        name: &str,
    ) -> Result<Option<T>, Failure> {
        if !is_segment(name) {
            return Ok(None);
        }
        self.find(&format!("{collection}/{name}")).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment() {
        for name in ["a", "web-1", "a.b", "A_b", "..a", "a..b"] {
            assert!(is_segment(name), "{name}");
        }
        let too_long = "a".repeat(254);
        for bad in [
            "",
            ".",
            "..",
            "...",
            "a/b",
            "evil/proxy/admin",
            "a%2fb",
            "a?watch=1",
            "a#b",
            "a\nb",
            "a b",
            "ä",
            "a:b",
            &too_long,
        ] {
            assert!(!is_segment(bad), "{bad}");
        }
        assert!(is_version("v1") && is_version("ray.io/v1"));
        assert!(
            !is_version("a/b/c") && !is_version("v1/") && !is_version("../v1") && !is_version("")
        );
    }

    #[test]
    fn a_path_leads_to_an_object_or_to_a_known_part_of_it() {
        let valid = [
            "/version",
            "/apis",
            "/apis/apps/v1",
            "/api/v1/nodes",
            "/api/v1/nodes/n-1",
            "/api/v1/namespaces/a",
            "/api/v1/namespaces/a/pods?limit=500&continue=x%2Fy",
            "/api/v1/namespaces/a/pods/p/log?container=main",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
            "/apis/visibility.kueue.x-k8s.io/v1beta1/namespaces/a/localqueues/q/pendingworkloads?limit=9",
        ];
        for path in valid {
            assert!(check(path, Destination::ApiServer).is_ok(), "{path}");
        }
        let bad = [
            "/api/v1/namespaces/a/services/evil/proxy/admin/delete",
            "/api/v1/namespaces/a/services/evil/proxy",
            "/api/v1/nodes/n/proxy",
            "/api/v1/nodes/n/proxy/exec",
            "/api/v1/proxy/namespaces/a/services/x",
            "/api/v1/namespaces/a/pods/../services/x",
            "/api/v1/namespaces/a/pods/%2e%2e",
            "/api/v1/namespaces//pods",
            "/api/v1/namespaces/a/pods/",
            "/api/v1/namespaces/a/pods/a b",
            "/api/v1/namespaces/a/secrets/x/status",
            "/api/v1/namespaces/a/pods/x/exec?command=sh&a=/portforward?ports=1",
            "/api/v1/namespaces/a/pods/x?watch=true/log",
            "api/v1/nodes",
        ];
        for path in bad {
            assert!(check(path, Destination::ApiServer).is_err(), "{path}");
        }
    }

    #[test]
    fn only_proxy_paths_of_services_and_pods_leave_the_api_server() {
        let proxied = |path| check(path, Destination::Proxied).is_ok();
        assert!(proxied(
            "/api/v1/namespaces/m/services/https:prom:9090/proxy/api/v1/query?query=up%2Fx"
        ));
        assert!(proxied("/api/v1/namespaces/m/pods/dcgm:9400/proxy/metrics"));
        for bad in [
            "/api/v1/nodes/n/proxy/metrics",
            "/api/v1/namespaces/m/services/a/b:9090/proxy/metrics",
            "/api/v1/namespaces/m/pods/../x:1/proxy/metrics",
            "/api/v1/namespaces/m/pods/x",
        ] {
            assert!(!proxied(bad), "{bad}");
        }
    }
}
