//! Exit codes by which scripts tell a failed job, a difference, an undecided `fit`, a degraded
//! cluster and a signal from a failed request.

use std::process::{Child, Command};
use std::time::Duration;

use gpuctl_sandbox::eventually;
use serde_json::{Value, json};

use crate::runner::gpuctl;
use crate::support::{Run, Scene, cluster, file, finish, run};

const MINUTE: Duration = Duration::from_secs(60);

/// The body of a training that ends after some seconds.
fn ends(seconds: u32, code: u32) -> String {
    format!(
        "job: {{name: NAME, retries: 0}}\nenvironment: {{image: busybox, env: {{SIM_SECONDS: {seconds}, SIM_EXIT: {code}}}}}"
    )
}

/// Returns the error that a command printed as JSON on its last line of stderr.
fn error(run: &Run) -> Value {
    let line = run.err.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", run.err))
}

fn signal(child: &Child, name: &str) {
    Command::new("kill")
        .args([name, &child.id().to_string()])
        .status()
        .unwrap();
}

#[test]
fn a_wait_for_a_job_that_fails_is_not_a_failed_request() {
    let scene = Scene::with_nodes("codes-wait", 1);
    for (name, command) in [("created", "create"), ("applied", "apply")] {
        let wait = [command, "-f", "-", "--wait=complete", "--timeout", "90s"];
        let arguments = [&wait[..], &["-o", "json"]].concat();
        let run = scene
            .gpuctl_with(&arguments, &scene.training(name, &ends(1, 1)))
            .exits(10);
        let error = error(&run);
        assert_eq!(
            (&error["error"], &error["kind"]),
            (&json!("JobEnded"), &json!("job_ended")),
            "{error:#}"
        );
        assert_eq!(run.json()["status"], "failed", "{}", run.out);
    }
    let run = scene.gpuctl(&[
        "run",
        "--name",
        "typed",
        "--image",
        "bad/image:missing",
        "--gpus",
        "1",
        "--pool",
        "codes-wait",
        "--wait",
        "--timeout",
        "90s",
        "--",
        "true",
    ]);
    run.exits(10).says("cannot start");
    // A request that fails keeps its own code.
    scene
        .gpuctl_with(
            &["create", "-f", "-", "--wait=complete"],
            &scene.training("created", &ends(1, 1)),
        )
        .exits(1)
        .says("already exists");
}

#[test]
fn a_job_that_is_deleted_ends_the_wait_with_its_own_code() {
    let scene = Scene::with_nodes("codes-deleted", 1);
    let path = file(
        "codes-deleted.yaml",
        &scene.training("gone", "resources: {pool: POOL, gpu: 9}"),
    );
    let child = scene.start(&[
        "create",
        path.to_str().unwrap(),
        "--allow-pending",
        "--wait",
    ]);
    scene.until("gone", "pending", Some("Unschedulable"));
    // The command starts to wait shortly after it has created the job, but nothing shows when.
    std::thread::sleep(Duration::from_secs(1));
    scene.gpuctl(&["delete", "job", "gone", "--force"]).ok();
    finish(child, MINUTE)
        .exits(10)
        .says("job `gone` was deleted while gpuctl was waiting for it");
}

#[test]
fn logs_that_follow_a_job_exit_with_its_result() {
    let scene = Scene::with_nodes("codes-logs", 1);
    for (name, command_code, code) in [("good", 0, 0), ("bad", 3, 10)] {
        scene.create(name, &ends(6, command_code));
        scene.until(name, "running", None);
        let pod = scene.pods(name)[0]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        let mut log = cluster().pod_log("codes-logs", &pod, "main");
        log.say("first");
        let child = scene.start(&["logs", name, "-f"]);
        log.say("last");
        let followed = finish(child, MINUTE).exits(code);
        assert_eq!(followed.out, "first\nlast\n", "{}", followed.err);
        // The same holds for a job that has ended before.
        let again = scene.gpuctl(&["logs", name, "-f"]).exits(code);
        assert_eq!(again.out, "first\nlast\n", "{}", again.err);
        let lines = scene
            .gpuctl(&["logs", name, "-f", "-o", "json"])
            .exits(code);
        assert_eq!(lines.out.lines().count(), 2, "{}", lines.out);
        if code == 10 {
            let error = error(&lines);
            assert_eq!(error["error"], "JobEnded", "{error:#}");
            assert_eq!(error["hints"], json!(["gpuctl why codes-logs/bad"]));
            let message = error["message"].as_str().unwrap();
            let expected = "job `bad` failed: rank 0 exited with code 3";
            assert!(message.starts_with(expected), "{message}");
        }
        let plain = scene.gpuctl(&["logs", name]).ok();
        assert_eq!(plain.out, "first\nlast\n", "{}", plain.err);
    }
}

#[test]
fn a_deletion_ends_the_log_of_a_service_normally_but_not_that_of_a_training() {
    let scene = Scene::with_nodes("codes-ended", 1);
    scene.create("long", "");
    scene.serve("web", "vllm", 1, "");
    for (name, code) in [("long", 10), ("web", 0)] {
        scene.until(name, "running", None);
        let child = scene.start(&["logs", name, "-f"]);
        // The command must see the job before it is deleted.
        std::thread::sleep(Duration::from_secs(2));
        scene.gpuctl(&["delete", "job", name, "--force"]).ok();
        let run = finish(child, MINUTE).exits(code);
        let deleted = "was deleted while gpuctl was following its log";
        assert_eq!(run.err.contains(deleted), code == 10, "{}", run.err);
    }
}

#[test]
fn a_difference_is_a_result_and_a_failed_comparison_is_an_error() {
    let scene = Scene::with_nodes("codes-diff", 1);
    let diff = ["diff", "-f", "-", "-o", "json"];
    let yaml = scene.training("a", "");
    let changed = scene.gpuctl_with(&diff, &yaml).exits(11);
    assert!(
        changed.json().to_string().contains("\"object\""),
        "{}",
        changed.out
    );
    assert_eq!(changed.err, "");
    scene.gpuctl_with(&["create", "-f", "-"], &yaml).ok();
    let same = scene.gpuctl_with(&diff, &yaml).ok();
    assert!(
        !same.json().to_string().contains("\"object\""),
        "{}",
        same.out
    );
    assert_eq!(same.err, "");
    let broken = yaml.replace("kind: training", "kind: trainin");
    assert_eq!(scene.gpuctl_with(&diff, &broken).exits(3).out, "");
    let mut command = gpuctl();
    command
        .env("KUBECONFIG", unreachable_kubeconfig())
        .args(diff);
    assert_eq!(run(command, &yaml).exits(6).out, "");
}

#[test]
fn an_undecided_fit_is_not_a_failed_request() {
    let scene = Scene::with_nodes("codes-fit", 1);
    let fit = |extra: &str| {
        scene.gpuctl_with(
            &["fit", "-f", "-", "-o", "json"],
            &scene.training("a", extra),
        )
    };
    let spread = "pod: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}";
    for (extra, verdict, code) in [
        ("", "now", 0),
        ("resources: {pool: POOL, gpu: 9}", "never", 9),
        (spread, "unknown", 12),
    ] {
        let run = fit(extra).exits(code);
        let document = run.json();
        assert_eq!(document["items"][0]["verdict"], verdict, "{}", run.out);
    }
    let mut command = gpuctl();
    command
        .env("KUBECONFIG", unreachable_kubeconfig())
        .args(["fit", "-f", "-", "-o", "json"]);
    run(command, &scene.training("a", "")).exits(6);
}

#[test]
fn doctor_has_a_verdict_with_an_exit_code() {
    let scene = Scene::with_nodes("codes-doctor", 1);
    // The tests' cluster has no Prometheus.
    let degraded = scene.gpuctl(&["doctor", "-o", "json"]).exits(13);
    let report = degraded.json();
    assert_eq!(report["verdict"], "degraded", "{report:#}");
    let text = scene.gpuctl(&["doctor"]).exits(13).out;
    assert_eq!(text.lines().last(), Some("degraded"), "{text}");

    let doctor = |arguments: &[&str]| {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", unreachable_kubeconfig())
            .arg("doctor")
            .args(arguments);
        run(command, "").exits(14)
    };
    let report = doctor(&["-o", "json"]).json();
    assert_eq!(
        (&report["verdict"], &report["kubernetes"]["connected"]),
        (&json!("broken"), &json!(false)),
        "{report:#}"
    );
    assert!(report["kubernetes"]["error"].is_string(), "{report:#}");
    let text = doctor(&[]).out;
    assert_eq!(text.lines().last(), Some("broken"), "{text}");
}

#[test]
fn a_signal_decides_the_exit_code_of_a_waiting_command() {
    let scene = Scene::with_nodes("codes-signals", 1);
    for (name, number, code, error_name) in [
        ("int", "-INT", 130, "Interrupted"),
        ("term", "-TERM", 143, "Terminated"),
    ] {
        let path = file(
            &format!("codes-{name}.yaml"),
            &scene.training(name, "resources: {pool: POOL, gpu: 9}"),
        );
        let create = ["create", path.to_str().unwrap(), "--allow-pending"];
        let child = scene.start(&[&create[..], &["--wait", "-o", "json"]].concat());
        scene.until(name, "pending", Some("Unschedulable"));
        // The command starts to wait shortly after it has created the job.
        std::thread::sleep(Duration::from_secs(1));
        signal(&child, number);
        let run = finish(child, MINUTE).exits(code);
        let error = error(&run);
        assert_eq!(error["error"], error_name, "{error:#}");
        assert_eq!(error["kind"], error_name.to_lowercase(), "{error:#}");
        assert_eq!(run.json()["jobId"], name);
    }
    let path = file("codes-followed.yaml", &scene.training("followed", ""));
    let child = scene.start(&["create", path.to_str().unwrap(), "--follow"]);
    scene.until("followed", "running", None);
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, "-TERM");
    finish(child, MINUTE)
        .exits(143)
        .says("the job still exists and is not affected");
    eventually("the job still runs", MINUTE, || {
        let job = scene.job("followed");
        (job["status"] == "running").then_some(()).ok_or(job)
    });
}

/// A kubeconfig of an API server that does not respond.
fn unreachable_kubeconfig() -> std::path::PathBuf {
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "down",
        "clusters": [{"name": "down", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "down", "context": {"cluster": "down", "user": "u", "namespace": "a"}}]});
    file("codes-unreachable.kubeconfig", &config.to_string())
}
