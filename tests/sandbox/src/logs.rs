//! A simulated container's log: a file in CRI format, which kwok serves as a kubelet would.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::Kubectl;

pub struct PodLog {
    file: File,
    last: Timestamp,
}

impl PodLog {
    pub(crate) fn new(
        kubectl: &Kubectl,
        folder: PathBuf,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Self {
        let path = folder.join(format!("{namespace}-{pod}-{container}.log"));
        let previous = folder.join(format!("{namespace}-{pod}-{container}.previous.log"));
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .expect("the sandbox's folder is writable");
        File::create(&previous).expect("the sandbox's folder is writable");
        kubectl.apply(&json!({
            "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Logs",
            "metadata": {"name": pod, "namespace": namespace},
            "spec": {"logs": [{"containers": [container], "logsFile": path, "previousLogsFile": previous, "follow": true}]},
        }));
        kubectl.apply(&json!({
            "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Attach",
            "metadata": {"name": pod, "namespace": namespace},
            "spec": {"attaches": [{"containers": [container], "logsFile": path}]},
        }));
        Self {
            file,
            last: Timestamp::UNIX_EPOCH,
        }
    }

    /// Appends a line to stdout with the current time. Each line has a unique timestamp, as with a
    /// real runtime.
    pub fn say(&mut self, line: &str) {
        let now = Timestamp::now().max(
            self.last
                .saturating_add(SignedDuration::from_nanos(1))
                .expect("a nanosecond fits"),
        );
        self.say_at(now, line);
    }

    /// Appends a line to stdout with the given time.
    ///
    /// # Panics
    /// If the disk is full.
    pub fn say_at(&mut self, at: Timestamp, line: &str) {
        self.last = at;
        self.file
            .write_all(format!("{at:.9} stdout F {line}\n").as_bytes())
            .expect("the log can be written");
    }
}
