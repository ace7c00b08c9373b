//! Tests `--wait` and `--follow` with a real kubelet, a real container runtime, real programs, and
//! a registry that does not respond.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Scene, training};

const WAIT: [&str; 6] = ["create", "-f", "-", "--wait", "--timeout", "120s"];

#[test]
fn a_failed_image_pull_ends_the_wait() {
    let scene = Scene::new("real-wait-pull");
    let started = Instant::now();
    let yaml = training(
        "pull",
        "",
        "environment: {image: 'nowhere.invalid/model:9', command: [train]}",
    );
    let run = scene.gpuctl_with(&WAIT, &yaml).exits(10);
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
    assert!(
        run.err.contains("nowhere.invalid/model:9")
            && run
                .err
                .contains("hint: gpuctl describe job real-wait-pull/pull"),
        "{}",
        run.err
    );
}

#[test]
fn a_missing_program_ends_the_wait() {
    let scene = Scene::new("real-wait-start");
    let started = Instant::now();
    let environment = "environment: {image: 'toolbox:1', command: [no-such-program]}";
    scene
        .gpuctl_with(&WAIT, &training("typo", "", environment))
        .exits(10)
        .says("no-such-program");
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
    let service = "kind: inference\nversion: v0.1\njob: {name: web}\nenvironment: {image: 'toolbox:1', command: [sh, -c, 'echo no weights; exit 3']}\n\
                   service: {replicas: 1, port: 8000}\nresources: {pool: real, gpu: 1}\n";
    let run = scene
        .gpuctl_with(&WAIT, service)
        .exits(10)
        .says("CrashLoopBackOff");
    assert!(run.err.contains("log: no weights"), "{}", run.err);
}

/// The kubelet retries a mount forever, but gpuctl gives up after half a minute of failures.
#[test]
fn a_missing_host_path_ends_the_wait() {
    let scene = Scene::new("real-wait-mount");
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "absent"}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "claimRef": {"namespace": "real-wait-mount", "name": "data"},
            "hostPath": {"path": "/var/lib/gpuctl-sandbox/absent", "type": "Directory"}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "real-wait-mount"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "resources": {"requests": {"storage": "1Gi"}}}},
    ]}));
    let started = Instant::now();
    let run = scene
        .gpuctl_with(
            &WAIT,
            &training(
                "mount",
                "true",
                "storage: {workdirs: [{pvc: data, path: /data}]}",
            ),
        )
        .exits(10);
    let waited = started.elapsed();
    assert!(
        (Duration::from_secs(25)..Duration::from_secs(75)).contains(&waited),
        "{waited:?}"
    );
    assert!(
        run.err.contains("FailedMount") && run.err.contains("/var/lib/gpuctl-sandbox/absent"),
        "{}",
        run.err
    );
    scene.gpuctl(&["delete", "job", "mount", "--force"]).ok();
}

#[test]
fn follow_prints_the_log_and_exits_with_the_result_of_the_job() {
    let scene = Scene::new("real-wait-follow");
    let follow = ["create", "-f", "-", "--follow"];
    let yaml = |name: &str, code: u8| {
        let script = format!("for i in 1 2 3; do echo line $i; sleep 1; done; exit {code}");
        training(name, &script, &format!("job: {{name: {name}, retries: 0}}"))
    };
    for (name, command_code, code) in [("good", 0, 0), ("bad", 37, 10)] {
        let run = scene
            .gpuctl_with(&follow, &yaml(name, command_code))
            .exits(code);
        assert!(run.out.ends_with("line 1\nline 2\nline 3\n"), "{}", run.out);
    }
    let failed = scene
        .gpuctl_with(
            &["create", "-f", "-", "--wait=complete", "--timeout", "60s"],
            &yaml("again", 37),
        )
        .exits(10);
    for line in [
        "code 37",
        "log: line 3",
        "hint: gpuctl logs real-wait-follow/again",
    ] {
        assert!(failed.err.contains(line), "{line}: {}", failed.err);
    }
}
