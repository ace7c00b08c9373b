//! Rejects requests that would change the cluster before they are sent. Reads are GETs, dry runs,
//! access reviews, and queries to a Prometheus behind the API server.

use std::fmt;

use http::Method;

/// Why changes are forbidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOnly {
    Flag,
    Environment,
    /// The config file forbids changes, for all contexts or for the current one.
    File,
    /// The setting cannot be read, and might forbid changes.
    Unclear(String),
}

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("`--read-only` is set"),
            Self::Environment => f.write_str("GPUCTL_READ_ONLY is set"),
            Self::File => f.write_str("the config file sets `safety.read_only`"),
            Self::Unclear(reason) => {
                write!(f, "cannot determine whether changes are allowed: {reason}")
            }
        }
    }
}

pub(crate) fn only_reads(method: &Method, path: &str) -> bool {
    let (resource, query) = path.split_once('?').unwrap_or((path, ""));
    // Exec and attach open a WebSocket with GET, but the process in the container can do anything.
    let enters_container = ["/exec", "/attach"]
        .iter()
        .any(|end| resource.ends_with(end));
    let review_resources = [
        "/apis/authorization.k8s.io/",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    ];
    let is_review = review_resources
        .iter()
        .any(|start| resource.starts_with(start));
    // Compare entire parameters, because `fieldManager=dryRun=All` is not a dry run.
    let is_dry_run = query.split('&').any(|pair| pair == "dryRun=All");
    match *method {
        Method::GET => !enters_container,
        Method::POST => is_review || is_dry_run,
        _ => is_dry_run,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_differ_from_writes() {
        for path in [
            "/api/v1/pods?limit=500",
            "/api/v1/namespaces/a/pods/p/log?follow=true",
            "/api/v1/namespaces/a/pods/p/portforward?ports=80",
        ] {
            assert!(only_reads(&Method::GET, path), "{path}");
        }
        assert!(only_reads(
            &Method::POST,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        ));
        assert!(only_reads(
            &Method::PATCH,
            "/api/v1/namespaces/a/configmaps/c?fieldManager=gpuctl&dryRun=All"
        ));
        for (method, path) in [
            (Method::GET, "/api/v1/namespaces/a/pods/p/exec?command=ls"),
            (Method::GET, "/api/v1/namespaces/a/pods/p/attach"),
            (Method::POST, "/api/v1/namespaces"),
            (Method::POST, "/api/v1/namespaces/dryRun=All/pods"),
            (Method::PATCH, "/api/v1/nodes/n?fieldManager=dryRun=All"),
            (Method::DELETE, "/api/v1/namespaces/a/pods/p"),
            (Method::PUT, "/api/v1/namespaces/a/pods/p?dryRun=Allx"),
        ] {
            assert!(!only_reads(&method, path), "{method} {path}");
        }
    }
}
