//! `gpuctl wait`: its conditions, its exit codes, and how it selects jobs.

use std::time::Duration;

use gpuctl_sandbox::eventually;

use crate::support::{Scene, finish};

const MINUTE: Duration = Duration::from_secs(60);

/// The body of a training that ends after some seconds.
fn ends(seconds: u32, code: u32) -> String {
    format!(
        "job: {{name: NAME, retries: 0}}\nenvironment: {{image: busybox, env: {{SIM_SECONDS: {seconds}, SIM_EXIT: {code}}}}}"
    )
}

#[test]
fn wait_ends_when_the_condition_is_met_or_cannot_be_met() {
    let scene = Scene::with_nodes("wait-ends", 1);
    scene.create("good", &ends(1, 0));
    scene.create("bad", &ends(1, 3));
    let good = scene.gpuctl(&["wait", "good", "-o", "json"]).ok().json();
    assert_eq!(good["met"], true, "{good:#}");
    assert_eq!(good["items"][0]["status"], "succeeded", "{good:#}");
    let bad = scene
        .gpuctl(&["wait", "wait-ends/bad", "-o", "json"])
        .exits(10);
    let result = bad.json();
    assert_eq!(result["met"], false, "{result:#}");
    assert_eq!(result["items"][0]["outcome"], "impossible", "{result:#}");
    assert!(bad.err.contains("\"error\":\"JobEnded\""), "{}", bad.err);
    assert!(bad.err.contains("gpuctl why wait-ends/bad"), "{}", bad.err);
    scene.gpuctl(&["wait", "bad", "--for", "failed"]).ok();
    scene
        .gpuctl(&["wait", "good", "bad", "--for", "ended"])
        .ok();
    scene.gpuctl(&["wait", "good", "bad"]).exits(10);
    scene.gpuctl(&["wait", "good", "bad", "--any"]).ok();
    scene.gpuctl(&["wait", "good", "--for", "failed"]).exits(10);
}

#[test]
fn wait_times_out_and_says_what_it_waited_for() {
    let scene = Scene::with_nodes("wait-timeout", 1);
    scene.create("large", "resources: {pool: POOL, gpu: 8, node_count: 64}");
    let run = scene
        .gpuctl(&["wait", "large", "--for", "running", "--timeout", "2s"])
        .exits(7);
    assert!(
        run.err
            .contains("timed out after 2 s: job `large` is pending"),
        "{}",
        run.err
    );
    assert!(
        run.err.contains("gpuctl why wait-timeout/large"),
        "{}",
        run.err
    );
    let run = scene
        .gpuctl(&[
            "wait",
            "-l",
            "gpuctl/job=large",
            "--for",
            "ready=2",
            "--timeout",
            "1s",
            "-o",
            "json",
        ])
        .exits(7);
    assert_eq!(run.json()["items"][0]["outcome"], "waiting");
}

#[test]
fn wait_for_a_service_counts_its_ready_pods() {
    let scene = Scene::with_nodes("wait-ready", 1);
    scene.serve("chat", "vllm", 2, "");
    scene
        .gpuctl(&["wait", "chat", "--for", "ready=2", "--timeout", "60s"])
        .ok();
    scene
        .gpuctl(&["wait", "chat", "--for", "running", "--timeout", "60s"])
        .ok();
    let run = scene.gpuctl(&["wait", "chat"]).exits(2);
    assert!(
        run.err.contains("`--for complete` needs a job that ends"),
        "{}",
        run.err
    );
    scene.gpuctl(&["wait", "chat", "--for", "ready=0"]).exits(2);
    scene.gpuctl(&["wait", "chat", "--for", "soon"]).exits(2);
}

#[test]
fn wait_for_deletion_also_holds_for_a_job_that_never_existed() {
    let scene = Scene::with_nodes("wait-deleted", 1);
    scene.create("gone", "");
    let child = scene.start(&["wait", "gone", "--for", "deleted", "--timeout", "60s"]);
    eventually("the job runs", MINUTE, || {
        scene.job("gone")["status"] == "running"
    });
    scene.gpuctl(&["delete", "job", "gone"]).ok();
    assert_eq!(finish(child, MINUTE).code, 0);
    scene.gpuctl(&["wait", "never", "--for", "deleted"]).ok();
    let mistyped = scene.gpuctl_anywhere(&["wait", "wait-delted/never", "--for", "deleted"]);
    mistyped.ok().says("namespace `wait-delted` does not exist");
    scene.gpuctl(&["wait", "never"]).exits(4);
}

#[test]
fn a_deleted_job_ends_a_wait_for_its_completion() {
    let scene = Scene::with_nodes("wait-lost", 1);
    scene.create("lost", "");
    let child = scene.start(&["wait", "lost", "--timeout", "60s"]);
    eventually("the job runs", MINUTE, || {
        scene.job("lost")["status"] == "running"
    });
    scene.gpuctl(&["delete", "job", "lost"]).ok();
    let run = finish(child, MINUTE);
    assert_eq!(run.code, 10, "{}{}", run.out, run.err);
}

#[test]
fn patterns_labels_and_owners_select_jobs() {
    let scene = Scene::with_nodes("wait-select", 1);
    for (name, team) in [("trial-1", "nlp"), ("trial-2", "nlp"), ("other", "cv")] {
        let extra = ends(1, 0).replace("retries: 0", &format!("labels: {{team: {team}}}"));
        scene.create(name, &extra);
    }
    for (selection, expected) in [
        (&["trial-*"][..], 2),
        (&["-l", "team=nlp"], 2),
        (&["--mine"], 3),
        (&["trial-?", "-l", "team=cv"], 0),
        (&["*"], 3),
    ] {
        let arguments = [&["wait", "--for", "ended", "-o", "json"], selection].concat();
        let run = scene.gpuctl(&arguments);
        if expected == 0 {
            assert_eq!(run.code, 4, "{selection:?}: {}", run.err);
        } else {
            assert_eq!(run.json()["total"], expected, "{selection:?}: {}", run.err);
        }
    }
    scene.gpuctl(&["wait"]).exits(2);
    scene.gpuctl(&["wait", "../*"]).exits(2);
}
