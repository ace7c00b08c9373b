//! Tests how a job that has ended, or whose local files changed, runs again.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Scene, cluster};

/// Writes a training with a local file. It fails after some seconds.
fn training_with_file(scene: &Scene, name: &str, seconds: u32) -> PathBuf {
    let folder = cluster().folder().join("running-again").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("train.py"), "first").unwrap();
    let body = format!(
        "job: {{name: NAME, retries: 0}}\n\
         environment: {{image: busybox, env: {{SIM_SECONDS: {seconds}, SIM_EXIT: 1}}}}\n\
         files: [train.py]"
    );
    let yaml = folder.join("job.yaml");
    fs::write(&yaml, scene.training(name, &body)).unwrap();
    yaml
}

fn uid(scene: &Scene, name: &str) -> Value {
    scene.get(&["job", name, "-o", "json"])["metadata"]["uid"].clone()
}

#[test]
fn an_ended_training_runs_again_only_with_replace() {
    let scene = Scene::with_nodes("again-ended", 1);
    let yaml = training_with_file(&scene, "failing", 1);
    let path = yaml.to_str().unwrap();
    scene.gpuctl(&["create", "-f", path]).ok();
    scene.until("failing", "failed", None);
    let first = uid(&scene, "failing");
    for arguments in [
        &["apply", "-f", path][..],
        &["apply", "-f", path, "-o", "json"],
        &["resume", "failing"],
        &["restart", "failing"],
    ] {
        scene
            .gpuctl(arguments)
            .exits(10)
            .says("job `failing` has already ended: failed")
            .says("--replace");
    }
    assert_eq!(uid(&scene, "failing"), first);
    scene.gpuctl(&["apply", "-f", path, "--replace"]).ok();
    let second = uid(&scene, "failing");
    assert_ne!(second, first);
    scene.until("failing", "failed", None);
    // The usual repair changes a local file.
    fs::write(yaml.with_file_name("train.py"), "second").unwrap();
    scene.gpuctl(&["apply", "-f", path]).exits(10);
    scene.gpuctl(&["apply", "-f", path, "--replace"]).ok();
    assert_ne!(uid(&scene, "failing"), second);
    let files = scene.get(&["configmap", "failing-files", "-o", "json"]);
    assert!(files["data"].to_string().contains("second"), "{files:#}");
}

#[test]
fn changed_files_reach_a_running_training_with_replace() {
    let scene = Scene::with_nodes("again-files", 1);
    let yaml = training_with_file(&scene, "running", 3600);
    let path = yaml.to_str().unwrap();
    scene.gpuctl(&["create", "-f", path]).ok();
    scene.until("running", "running", None);
    let first = uid(&scene, "running");
    fs::write(yaml.with_file_name("train.py"), "second").unwrap();
    scene
        .gpuctl(&["apply", "-f", path])
        .ok()
        .says("keep the old files until they restart: gpuctl restart again-files/running");
    assert_eq!(uid(&scene, "running"), first);
    fs::write(yaml.with_file_name("train.py"), "third").unwrap();
    scene.gpuctl(&["apply", "-f", path, "--replace"]).ok();
    assert_ne!(uid(&scene, "running"), first);
}

#[test]
fn apply_reports_the_status_of_a_job_that_it_left_alone() {
    let scene = Scene::with_nodes("again-status", 1);
    let yaml = scene.service("web", "vllm", 1, "");
    let created = scene.gpuctl_with(&["apply", "-f", "-", "-o", "json"], &yaml);
    assert_eq!(created.ok().json()["status"], "pending");
    scene.until("web", "running", None);
    let unchanged = scene
        .gpuctl_with(&["apply", "-f", "-", "-o", "json"], &yaml)
        .ok()
        .json();
    assert_eq!(unchanged["status"], "running", "{unchanged:#}");
    assert_eq!(unchanged["message"], "unchanged", "{unchanged:#}");
}
