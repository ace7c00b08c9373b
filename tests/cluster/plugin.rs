//! Tests `kubectl gpuctl`, run by the real kubectl. Arguments and exit codes are passed on, help
//! and hints show the commands as users type them, and completion works.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::Duration;

use gpuctl_sandbox::{Persona, eventually};

use crate::support::{Run, Scene, cluster, finish};

/// Runs kubectl with gpuctl linked both as a plugin and as the plugin's completion program.
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
fn kubectl_runs_and_completes_the_plugin() {
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
    // kubectl passes on gpuctl's exit code.
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
    // On a busy machine, completion gives up early so that it does not block typing. The user
    // presses Tab again.
    let limit = Duration::from_secs(90);
    let names = eventually("completion offers the job's name", limit, || {
        let output = complete(&["logs", "-n", "plugged", "bert-"]);
        if output.contains("bert-large") {
            Ok(output)
        } else {
            Err(output)
        }
    });
    assert!(
        names.ends_with(":4\n") && !names.contains("--"),
        "only names, no options: {names}"
    );
    assert!(complete(&["get", "jobs", "--out"]).contains("--output"));
}
