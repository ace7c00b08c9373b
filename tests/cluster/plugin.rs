//! `kubectl gpuctl`, by the real kubectl: its arguments and exit codes arrive, help and hints name
//! the commands that its users type, and its completion is answered.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::Duration;

use gpuctl_sandbox::Persona;

use crate::support::{Run, Scene, cluster, finish};

/// Runs kubectl with the program linked as its plugin, and as what answers its completion.
fn kubectl(arguments: &[&str]) -> Run {
    let folder = cluster().folder().join("plugin");
    if std::fs::create_dir(&folder).is_ok() {
        for name in ["kubectl-gpuctl", "kubectl_complete-gpuctl"] {
            symlink(env!("CARGO_BIN_EXE_gpuctl"), folder.join(name)).unwrap();
        }
    }
    let mut command = Command::new(cluster().binary("kubectl"));
    command
        .args(arguments)
        .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
        .env("GPUCTL_PROMETHEUS", "none");
    command.env(
        "PATH",
        format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()),
    );
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    finish(command.spawn().unwrap(), Duration::from_secs(60))
}

#[test]
fn kubectl_runs_and_completes_it() {
    let scene = Scene::with_nodes("plugged", 1);
    scene.create("bert-large", "");
    let listed = kubectl(&["gpuctl", "get", "jobs", "-n", "plugged", "-o", "name"])
        .ok()
        .out;
    assert_eq!(listed, "plugged/bert-large\n");
    let plugins = kubectl(&["plugin", "list"]);
    assert!(
        plugins.out.contains("kubectl-gpuctl"),
        "{}{}",
        plugins.out,
        plugins.err
    );
    // kubectl hands on what the program ended with.
    let missing = kubectl(&["gpuctl", "describe", "job", "bert", "-n", "plugged"]).exits(4);
    assert!(
        missing.err.contains("`kubectl gpuctl ") && !missing.err.contains("`gpuctl "),
        "{}",
        missing.err
    );
    let missing = kubectl(&["gpuctl", "why", "bert", "-n", "plugged", "-o", "json"]).exits(4);
    assert!(
        missing.err.contains("\"error\"") && !missing.err.contains("`gpuctl "),
        "{}",
        missing.err
    );
    let help = kubectl(&["gpuctl", "logs", "--help"]).ok().out;
    assert!(
        help.contains("Usage: kubectl gpuctl logs") && help.contains("\n  kubectl gpuctl logs "),
        "{help}"
    );
    let skill = kubectl(&["gpuctl", "skill", "--help"]).ok().out;
    assert!(skill.contains("&& kubectl gpuctl skill"), "{skill}");
    let complete = |words: &[&str]| {
        kubectl(&[&["__complete", "gpuctl"], words].concat())
            .ok()
            .out
    };
    let verbs = complete(&["desc"]);
    assert!(verbs.starts_with("describe\t"), "{verbs}");
    // Whoever waits for the next key is not kept waiting on a busy machine; the tab key is pressed
    // again.
    let pressed = |time: u64| {
        std::thread::sleep(std::time::Duration::from_millis(50 * time));
        complete(&["logs", "-n", "plugged", "bert-"])
    };
    let names = (0..60)
        .map(pressed)
        .find(|told| told.contains("bert-large"));
    assert!(
        names.is_some_and(|told| told.ends_with(":4\n") && !told.contains("--")),
        "names come before options"
    );
    assert!(complete(&["get", "jobs", "--out"]).contains("--output"));
}
