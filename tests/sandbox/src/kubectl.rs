//! Talks to the sandbox as one persona through the kubectl that was built with it: what tests
//! arrange and what they look at independently of gpuctl.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// kubectl with the kubeconfig of one persona.
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

    /// Runs `kubectl ARGUMENTS`, with `input` on its standard input.
    pub fn try_run(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(&self.binary)
            .env("KUBECONFIG", &self.kubeconfig)
            // It ends before it needs what it would collect.
            .env("GOGC", "off")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl was built with the sandbox");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        thread::scope(|scope| {
            // It may print before it has read all, or answer without reading; its exit status tells
            // what came of it.
            scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
            child.wait_with_output().expect("kubectl ends")
        })
    }

    /// # Panics
    /// When kubectl fails: what a test arranges must hold.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.run_with(arguments, "")
    }

    /// # Panics
    /// When kubectl fails.
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
    /// When kubectl fails or prints no JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.run(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&text).expect("kubectl prints JSON")
    }

    /// Server-side applies `object`, one object or a list.
    ///
    /// # Panics
    /// When the API server refuses it.
    pub fn apply(&self, object: &Value) {
        self.run_with(
            // The schema that kubectl would fetch to validate takes as long as the rest. The server
            // refuses unknown fields anyway.
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

    /// Asks until `good` holds.
    ///
    /// # Panics
    /// After a minute, with the last answer.
    pub fn until(&self, arguments: &[&str], good: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let answer = self.json(arguments);
            if good(&answer) {
                return answer;
            }
            assert!(
                Instant::now() < end,
                "kubectl {arguments:?} never became what was awaited: {answer:#}"
            );
            thread::sleep(Duration::from_millis(100));
        }
    }
}
