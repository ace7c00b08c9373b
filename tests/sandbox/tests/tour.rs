//! Runs `cargo sandbox` as a new user would: the cluster starts, every command of the tour
//! succeeds, and the cluster stops.

use std::path::Path;
use std::process::{Command, Output};

fn sandbox(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandbox"));
    command.env("GPUCTL_SANDBOX_RUNNING", folder).args(words);
    // `cargo test --workspace` builds gpuctl into the same folder as the sandbox.
    let program = Path::new(env!("CARGO_BIN_EXE_sandbox")).with_file_name("gpuctl");
    if program.exists() {
        command.env("GPUCTL_SANDBOX_PROGRAM", program);
    }
    command.output().expect("the sandbox starts")
}

#[test]
fn every_command_of_the_tour_succeeds() {
    let folder = std::env::temp_dir().join(format!("gpuctl-tour-{}", std::process::id()));
    let up = sandbox(&folder, &["up"]);
    let down = sandbox(&folder, &["down"]);
    let _ = std::fs::remove_file(folder.with_extension("log"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&up.stdout), text(&up.stderr));
    assert!(up.status.success(), "{out}\n{err}");
    assert!(
        out.matches("\n$ gpuctl ").count() > 15 && out.trim_end().contains("export KUBECONFIG="),
        "{out}\n{err}"
    );
    assert!(
        text(&down.stdout).contains("the sandbox is down"),
        "{}",
        text(&down.stderr)
    );
    assert!(!folder.exists());
}
