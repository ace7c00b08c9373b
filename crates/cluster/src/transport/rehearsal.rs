//! Replaces requests that would change the cluster with rehearsals, for `--dry-run`.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::dry_run::DryRun;
use super::read_only::only_reads;
use crate::Connection;

/// The request sent instead of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rehearsal {
    pub method: Method,
    pub path: String,
    pub body: Bytes,
}

impl Rehearsal {
    /// Builds the rehearsal. In client mode, it reads the object that the write would change, so
    /// that a missing object is still an error.
    pub(super) fn new(dry_run: DryRun, method: &Method, path: &str, body: &Bytes) -> Self {
        let resource = path.split_once('?').map_or(path, |(resource, _)| resource);
        match dry_run {
            DryRun::Client => Self {
                method: Method::GET,
                path: resource.trim_end_matches("/eviction").to_owned(),
                body: Bytes::new(),
            },
            DryRun::Server => Self {
                method: method.clone(),
                path: match path.contains('?') {
                    true => format!("{path}&dryRun=All"),
                    false => format!("{path}?dryRun=All"),
                },
                body: match *method {
                    Method::DELETE => deletion(body),
                    _ => body.clone(),
                },
            },
        }
    }
}

impl Connection {
    /// Returns true if changes are only rehearsed.
    pub fn is_dry_run(&self) -> bool {
        self.access.dry_run.is_some()
    }

    /// Returns the request to send instead of a write, or `None` if the request may be sent
    /// unchanged.
    pub(super) fn rehearsal(&self, method: &Method, path: &str, body: &Bytes) -> Option<Rehearsal> {
        let dry_run = self.access.dry_run?;
        (!only_reads(method, path)).then(|| Rehearsal::new(dry_run, method, path, body))
    }
}

/// Adds `dryRun` to the options of a deletion. The API server ignores the query parameters of a
/// deletion that has a body (k8s.io/apiserver, pkg/endpoints/handlers/delete.go).
fn deletion(body: &Bytes) -> Bytes {
    let mut options: Value = serde_json::from_slice(body)
        .unwrap_or_else(|_| json!({"apiVersion": "v1", "kind": "DeleteOptions"}));
    options["dryRun"] = json!(["All"]);
    Bytes::from(options.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rehearsal(dry_run: DryRun, method: &Method, path: &str, body: &str) -> (String, Bytes) {
        let body = Bytes::from(body.to_owned());
        let rehearsal = Rehearsal::new(dry_run, method, path, &body);
        (
            format!("{} {}", rehearsal.method, rehearsal.path),
            rehearsal.body,
        )
    }

    #[test]
    fn a_client_rehearsal_only_reads() {
        for (method, path, read) in [
            (Method::DELETE, "/api/v1/pods/a", "GET /api/v1/pods/a"),
            (Method::PATCH, "/api/v1/pods/a?x=y", "GET /api/v1/pods/a"),
            (
                Method::POST,
                "/api/v1/pods/a/eviction",
                "GET /api/v1/pods/a",
            ),
        ] {
            let (request, body) = rehearsal(DryRun::Client, &method, path, "{}");
            assert_eq!((request.as_str(), body.len()), (read, 0));
        }
    }

    #[test]
    fn a_server_rehearsal_sets_dry_run_in_query_and_body() {
        let (request, body) = rehearsal(
            DryRun::Server,
            &Method::DELETE,
            "/api/v1/pods/a",
            r#"{"kind":"DeleteOptions","preconditions":{"uid":"1"}}"#,
        );
        assert_eq!(request, "DELETE /api/v1/pods/a?dryRun=All");
        let options: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(options["dryRun"], json!(["All"]));
        assert_eq!(options["preconditions"]["uid"], "1");
        let (request, body) = rehearsal(DryRun::Server, &Method::PATCH, "/a?b=c", "{}");
        assert_eq!(
            (request.as_str(), &body[..]),
            ("PATCH /a?b=c&dryRun=All", &b"{}"[..])
        );
    }
}
