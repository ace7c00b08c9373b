//! Runs gpuctl as users and scripts do. Tests of several kinds of clusters share this module.

mod answers;

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Builds a gpuctl command that does not inherit the kubeconfig, kuberc, colors and locale of the user
/// who runs the tests.
pub fn gpuctl() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
    command
        .env_remove("KUBECONFIG")
        .env_remove("GPUCTL_TOKEN")
        .env("KUBERC", "off")
        // The config file of the person who runs the tests must not change their results.
        .env("XDG_CONFIG_HOME", "/dev/null")
        .env("NO_COLOR", "1")
        .env("LC_ALL", "C.UTF-8");
    // Metrics have their own tests in `tests/metrics`, with a Prometheus that scrapes an exporter.
    command.env("GPUCTL_PROMETHEUS", "none");
    command
}

/// Exit code and output of one gpuctl run.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "stdout: {}\nstderr: {}",
            self.out, self.err
        );
        self
    }

    /// Asserts that stderr contains this text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(
            self.err.contains(text),
            "«{text}» is not in stderr:\n{}",
            self.err
        );
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| {
            panic!("stdout is not JSON ({error}): {}\n{}", self.out, self.err)
        })
    }
}

/// Runs a command until it ends, for at most two minutes.
pub fn run(mut command: Command, input: &str) -> Run {
    use std::io::Write;
    let arguments: Vec<String> = command
        .get_args()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("gpuctl starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let input = input.to_owned();
    std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let run = finish(child, Duration::from_secs(120));
    answers::check_output(&arguments, &run);
    run
}

/// Waits for a child process and reads its output; kills it after this time.
pub fn finish(child: Child, within: Duration) -> Run {
    let pid = child.id().to_string();
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let killer = std::thread::spawn(move || {
        if waiting.recv_timeout(within).is_err() {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
        }
    });
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().expect("gpuctl ends");
    let _ = done.send(());
    killer.join().expect("the killer does not panic");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("gpuctl prints UTF-8");
    Run {
        code: status.code().unwrap_or(-9),
        out: text(stdout),
        err: text(stderr),
    }
}
