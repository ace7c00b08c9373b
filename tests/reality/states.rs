//! Tests pods that do not start or that terminate. Every command must show the message from the
//! kubelet or the container runtime.

use serde_json::json;

use crate::support::{Scene, eventually};

/// Asserts that lists and `describe` show the text as the reason, and no start time for a container
/// that never started. The kubelet reports its start time as 1970.
fn assert_reason_shown(scene: &Scene, name: &str, text: &str) {
    let job = eventually(&format!("the message of {name} has «{text}»"), || {
        let job = scene.job(name);
        if job["message"]
            .as_str()
            .is_some_and(|message| message.contains(text))
        {
            Ok(job)
        } else {
            Err(job)
        }
    });
    assert!(!job.to_string().contains("1970-01"), "{job:#}");
    let described = scene.gpuctl(&["describe", "job", name]).ok().out;
    assert!(described.contains(text), "«{text}» is not in:\n{described}");
    let wide = scene.gpuctl(&["get", "jobs", "-o", "wide"]).ok().out;
    assert!(
        !described.contains("1970-01") && !wide.contains("1970-01") && !wide.contains("20779d"),
        "{described}{wide}"
    );
}

#[test]
fn a_missing_program_is_reported() {
    let scene = Scene::new("real-start");
    let environment = "environment: {image: 'toolbox:1', command: [no-such-program, '1']}\njob: {name: typo, retries: 0}";
    scene.train("typo", "", environment);
    scene.until("typo", "failed", None);
    assert_reason_shown(&scene, "typo", "no-such-program");
    scene.gpuctl(&["logs", "typo"]).says("no-such-program");
}

#[test]
fn a_missing_image_stays_pending_and_is_reported() {
    let scene = Scene::new("real-pull");
    scene.train(
        "pull",
        "",
        "environment: {image: 'nowhere.invalid/model:9', command: [train]}",
    );
    scene.until("pull", "pending", None);
    assert_reason_shown(&scene, "pull", "nowhere.invalid/model:9");
    scene
        .gpuctl(&["logs", "pull"])
        .says("nowhere.invalid/model:9");
}

#[test]
fn a_missing_host_path_is_reported() {
    let scene = Scene::new("real-mount");
    let claim = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "nowhere"}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "claimRef": {"namespace": "real-mount", "name": "data"},
            "hostPath": {"path": "/var/lib/gpuctl-sandbox/nowhere", "type": "Directory"}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "real-mount"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "resources": {"requests": {"storage": "1Gi"}}}},
    ]});
    scene.admin.apply(&claim);
    scene.train(
        "mount",
        "true",
        "storage: {workdirs: [{pvc: data, path: /data}]}",
    );
    assert_reason_shown(&scene, "mount", "/var/lib/gpuctl-sandbox/nowhere");
    scene
        .gpuctl(&["logs", "mount"])
        .says("/var/lib/gpuctl-sandbox/nowhere");
    scene.gpuctl(&["delete", "job", "mount", "--force"]).ok();
}

#[test]
fn an_eviction_reports_its_reason() {
    let scene = Scene::new("real-eviction");
    let pod = "pod: {containers: [{name: main, resources: {limits: {ephemeral-storage: 8Mi}}}]}\njob: {name: disk, retries: 0}";
    scene.train(
        "disk",
        "head -c 40000000 /dev/zero > /tmp/full; sleep 300",
        pod,
    );
    scene.until("disk", "failed", None);
    assert_reason_shown(&scene, "disk", "ephemeral");
}

/// Both ranks fail, one after the other. The first failure causes the second.
#[test]
fn the_first_failed_rank_is_reported() {
    let scene = Scene::new("real-ranks");
    let script = "if [ $JOB_COMPLETION_INDEX = 1 ]; then sleep 2; exit 37; fi; sleep 6; exit 1";
    scene.train(
        "ranks",
        script,
        "resources: {pool: real, gpu: 1, node_count: 2}\njob: {name: ranks, retries: 0}",
    );
    let job = scene.until("ranks", "failed", None);
    let message = job["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("37") && !message.contains("code 1,"),
        "{job:#}"
    );
    assert!(message.contains("rank 1"), "{job:#}");
}

#[test]
fn a_service_with_a_failing_health_check_is_unhealthy() {
    let scene = Scene::new("real-health");
    let yaml = "kind: inference\nversion: v0.1\njob: {name: web}\nenvironment: {image: 'toolbox:1', command: [serve, '8000']}\n\
                service: {replicas: 1, port: 8000, health_check: /health}\nresources: {pool: real, gpu: 1}\n";
    scene
        .gpuctl_with(&["create", "-f", "-", "--wait", "--timeout", "90s"], yaml)
        .ok();
    scene
        .gpuctl(&["exec", "web", "--", "touch", "/tmp/unhealthy"])
        .ok();
    let job = eventually("the service is unhealthy", || {
        let job = scene.job("web");
        if job["reason"] == "Unhealthy" {
            Ok(job)
        } else {
            Err(job)
        }
    });
    assert!(
        job["message"]
            .as_str()
            .is_some_and(|message| message.contains("health check")),
        "{job:#}"
    );
    let described = scene.gpuctl(&["describe", "job", "web"]).ok().out;
    assert!(described.contains("503"), "{described}");
    scene.gpuctl(&["delete", "job", "web", "--force"]).ok();
}

/// A container that handles SIGTERM cleanly at its deadline has not succeeded.
#[test]
fn a_job_at_its_deadline_fails_and_its_events_are_in_order() {
    let scene = Scene::new("real-deadline");
    scene.train(
        "late",
        "exec train --steps 100000",
        "job: {name: late, max_runtime: 6s, retries: 0}",
    );
    let job = scene.until("late", "failed", None);
    assert_eq!(job["reason"], "DeadlineExceeded", "{job:#}");
    let described = scene.gpuctl(&["describe", "job", "late"]).ok().out;
    assert!(!described.contains("failed Completed"), "{described}");
    let events = scene.gpuctl(&["events", "late", "-o", "json"]).ok().json();
    let reasons: Vec<&str> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| event["reason"].as_str())
        .collect();
    let at = |reason: &str| {
        reasons
            .iter()
            .position(|found| *found == reason)
            .unwrap_or_else(|| panic!("no {reason}: {reasons:?}"))
    };
    assert!(
        at("SuccessfulCreate") < at("Scheduled")
            && at("Scheduled") < at("Created")
            && at("Created") < at("Started"),
        "{reasons:?}"
    );
}

/// The container runtime's default is 64 MiB.
#[test]
fn gpu_jobs_and_notebooks_have_enough_shared_memory() {
    let scene = Scene::new("real-shm");
    scene.train(
        "shm",
        "df -k /dev/shm; dd if=/dev/zero of=/dev/shm/x bs=1M count=100 2>&1 && echo fits",
        "",
    );
    scene.until("shm", "succeeded", None);
    assert!(scene.gpuctl(&["logs", "shm"]).ok().out.contains("fits"));
    let yaml = "kind: notebook\nversion: v0.1\njob: {name: book}\nenvironment: {image: 'toolbox:1', command: [serve, '8888']}\nresources: {pool: real, gpu: 1}\n";
    scene
        .gpuctl_with(&["create", "-f", "-", "--wait", "--timeout", "90s"], yaml)
        .ok();
    scene
        .gpuctl(&[
            "exec",
            "book",
            "--",
            "dd",
            "if=/dev/zero",
            "of=/dev/shm/x",
            "bs=1M",
            "count=100",
        ])
        .ok();
    scene.gpuctl(&["delete", "job", "book", "--force"]).ok();
}
