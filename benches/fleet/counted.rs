//! Counts a command's requests to the API server with the audit log, and the bytes of the responses
//! with a TCP proxy. Does not measure time.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use gpuctl_sandbox::{Cluster, Persona};
use serde_json::{Value, json};

use crate::line;

/// Test user whose requests the API server writes to its audit log.
const COUNTED: Persona = Persona::Heidi;

/// The proxy, and the credentials for sending requests through it.
pub struct Counter {
    pub server: String,
    pub token: String,
    kubeconfig: PathBuf,
    audit: PathBuf,
    received: Arc<AtomicU64>,
}

/// A command's requests, and the encrypted bytes of their responses.
pub struct Counts {
    /// Paths with their queries, in the order of the responses.
    pub requests: Vec<String>,
    pub bytes: u64,
}

impl Counter {
    pub fn new(cluster: &Cluster) -> Self {
        cluster.kubectl(Persona::Admin).apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "counted"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": COUNTED.user()}],
        }));
        let api_server = cluster.api_server();
        let received = Arc::default();
        let address = line::open(
            api_server.trim_start_matches("https://"),
            Duration::ZERO,
            &received,
        );
        let server = format!("https://{address}");
        let kubeconfig = cluster.folder().join("counted.kubeconfig");
        let original =
            fs::read_to_string(cluster.kubeconfig(COUNTED)).expect("the persona has a kubeconfig");
        fs::write(&kubeconfig, original.replace(&api_server, &server))
            .expect("the folder is writable");
        Self {
            server,
            token: cluster.token(COUNTED),
            kubeconfig,
            audit: cluster.folder().join("audit.log"),
            received,
        }
    }

    /// Runs a command and counts its requests.
    pub fn count(&self, command: &mut Command) -> Counts {
        let now = || (self.requests(), self.received.load(Ordering::SeqCst));
        let mut counts = Counts {
            requests: Vec::new(),
            bytes: 0,
        };
        // Run the command twice and keep the second counts, because the first run only fills
        // caches.
        for _ in 0..2 {
            let (requests, bytes) = now();
            let command_without_output = command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let status = command_without_output
                .env("KUBECONFIG", &self.kubeconfig)
                .status()
                .expect("the command starts");
            assert!(status.success(), "{command:?} failed");
            // The API server writes the audit event after it has sent the response.
            thread::sleep(Duration::from_millis(500));
            let (mut all_requests, bytes_after) = now();
            counts = Counts {
                requests: all_requests.split_off(requests.len()),
                bytes: bytes_after - bytes,
            };
        }
        counts
    }

    fn requests(&self) -> Vec<String> {
        let log = fs::read_to_string(&self.audit).unwrap_or_default();
        let counted = log
            .lines()
            .filter(|line| line.contains(&format!("\"username\":\"{}\"", COUNTED.user())));
        let uri = |line: &str| {
            let entry: Value = serde_json::from_str(line).expect("a line is an object");
            entry["requestURI"]
                .as_str()
                .expect("an audit event has a path")
                .to_owned()
        };
        counted.map(uri).collect()
    }
}
