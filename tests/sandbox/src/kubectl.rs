//! Runs the sandbox's kubectl as one persona, so that tests can set up and inspect the cluster
//! without gpuctl.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::eventually;

/// kubectl with one persona's kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    pub(crate) fn new(binary: &Path, kubeconfig: &Path) -> Self {
        Self {
            binary: binary.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
        }
    }

    /// Runs `kubectl ARGUMENTS` with `input` on stdin.
    pub fn try_run(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(&self.binary)
            .env("KUBECONFIG", &self.kubeconfig)
            // kubectl is short-lived, so garbage collection would only cost time.
            .env("GOGC", "off")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl was built with the sandbox");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        thread::scope(|scope| {
            // kubectl may print before it has read all input, or exit without reading it. Its exit
            // status reports the outcome.
            scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
            child.wait_with_output().expect("kubectl ends")
        })
    }

    /// # Panics
    /// If kubectl fails.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.run_with(arguments, "")
    }

    /// # Panics
    /// If kubectl fails.
    pub fn run_with(&self, arguments: &[&str], input: &str) -> String {
        let output = self.try_run(arguments, input);
        assert!(
            output.status.success(),
            "kubectl {arguments:?} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// # Panics
    /// If kubectl fails or its output is not JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.run(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&text).expect("kubectl prints JSON")
    }

    /// Applies `object`, which is one object or a list, on the server.
    ///
    /// # Panics
    /// If the API server rejects it.
    pub fn apply(&self, object: &Value) {
        self.run_with(
            // To validate, kubectl would download the schema, which takes as long as the apply
            // itself. The server rejects unknown fields anyway.
            &[
                "apply",
                "--server-side",
                "--force-conflicts",
                "--validate=false",
                "-f",
                "-",
            ],
            &object.to_string(),
        );
    }

    /// Repeats a read until its output meets a condition.
    ///
    /// # Panics
    /// After a minute, with the last output.
    #[track_caller]
    pub fn until(&self, arguments: &[&str], is_expected: impl Fn(&Value) -> bool) -> Value {
        let what = format!("the output of kubectl {arguments:?} is as expected");
        eventually(&what, Duration::from_secs(60), || {
            let answer = self.json(arguments);
            if is_expected(&answer) {
                Ok(answer)
            } else {
                Err(answer)
            }
        })
    }
}
