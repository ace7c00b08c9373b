//! Counts what a command asks of the API server: its requests, by the audit log, and the bytes of
//! the answers, at a port in between that passes on what it gets. It takes no times.

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

/// Whose requests are in the audit log.
const COUNTED: Persona = Persona::Heidi;

/// The port in between, and the one who asks through it.
pub struct Counter {
    pub server: String,
    pub token: String,
    kubeconfig: PathBuf,
    audit: PathBuf,
    received: Arc<AtomicU64>,
}

/// What a command asked for. Bytes are those on the wire, encrypted.
pub struct Counts {
    /// Paths with their queries, in the order in which they were answered.
    pub requests: Vec<String>,
    pub bytes: u64,
}

impl Counter {
    pub fn of(cluster: &Cluster) -> Self {
        cluster.kubectl(Persona::Admin).apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "counted"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": COUNTED.user()}],
        }));
        let behind = cluster.api_server();
        let received = Arc::default();
        let address = line::open(
            behind.trim_start_matches("https://"),
            Duration::ZERO,
            &received,
        );
        let server = format!("https://{address}");
        let kubeconfig = cluster.folder().join("counted.kubeconfig");
        let original =
            fs::read_to_string(cluster.kubeconfig(COUNTED)).expect("it has a kubeconfig");
        fs::write(&kubeconfig, original.replace(&behind, &server)).expect("the folder is writable");
        Self {
            server,
            token: cluster.token(COUNTED),
            kubeconfig,
            audit: cluster.folder().join("audit.log"),
            received,
        }
    }

    /// Runs a command to its end.
    pub fn counts(&self, command: &mut Command) -> Counts {
        let now = || (self.requests(), self.received.load(Ordering::SeqCst));
        let mut counts = Counts {
            requests: Vec::new(),
            bytes: 0,
        };
        // The first run fills caches, and the second is counted.
        for _ in 0..2 {
            let (requests, bytes) = now();
            let quiet = command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let status = quiet
                .env("KUBECONFIG", &self.kubeconfig)
                .status()
                .expect("the command starts");
            assert!(status.success(), "{command:?} failed");
            // A request is written down when its answer has left the server.
            thread::sleep(Duration::from_millis(500));
            let (mut all, bytes_after) = now();
            counts = Counts {
                requests: all.split_off(requests.len()),
                bytes: bytes_after - bytes,
            };
        }
        counts
    }

    fn requests(&self) -> Vec<String> {
        let log = fs::read_to_string(&self.audit).unwrap_or_default();
        let own = log
            .lines()
            .filter(|line| line.contains(&format!("\"username\":\"{}\"", COUNTED.user())));
        let uri = |line: &str| {
            let entry: Value = serde_json::from_str(line).expect("a line is an object");
            entry["requestURI"]
                .as_str()
                .expect("it has a path")
                .to_owned()
        };
        own.map(uri).collect()
    }
}
