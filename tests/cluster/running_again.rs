//! Tests how a job that has ended, or whose local files changed, runs again, and that concurrent
//! runs of `apply` create one job.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Run, Scene, cluster, finish, items};

/// Writes a training with a local file. It fails after some seconds.
fn training_with_file(scene: &Scene, name: &str, seconds: u32) -> PathBuf {
    let folder = cluster()
        .folder()
        .join("running-again")
        .join(scene.name)
        .join(name);
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

fn content(scene: &Scene, job: &str) -> Value {
    scene.get(&["configmap", &format!("{job}-files")])["data"]["file-0"].clone()
}

fn restart(scene: &Scene, more: &[&str]) -> Run {
    scene.gpuctl(&[&["restart", "failing", "-o", "json"], more].concat())
}

fn uid_of(scene: &Scene, kind: &str, name: &str) -> Value {
    scene.get(&[kind, name])["metadata"]["uid"].clone()
}

fn uid(scene: &Scene, name: &str) -> Value {
    uid_of(scene, "job", name)
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
    ] {
        scene
            .gpuctl(arguments)
            .exits(10)
            .says("job `failing` has already ended: failed")
            .says("gpuctl restart again-ended/failing")
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
fn restart_submits_an_ended_training_from_what_the_cluster_stores() {
    let scene = Scene::with_nodes("again-stored", 1);
    let yaml = training_with_file(&scene, "failing", 1);
    let path = yaml.to_str().unwrap();
    scene.gpuctl(&["create", "-f", path]).ok();
    scene.until("failing", "failed", None);
    let first = uid(&scene, "failing");
    fs::write(yaml.with_file_name("train.py"), "second").unwrap();
    for place in ["client", "server"] {
        let rehearsed = restart(&scene, &[&format!("--dry-run={place}")]).ok();
        assert_eq!(rehearsed.json()["dryRun"], place);
    }
    restart(&scene, &["--rank", "0"])
        .exits(10)
        .says("omit `--rank`");
    restart(&scene, &["--set", "job.name=other"]).exits(2);
    restart(&scene, &["--set", "environment.image=A b"]).exits(3);
    assert_eq!(uid(&scene, "failing"), first);
    assert_eq!(
        restart(&scene, &[]).ok().json()["status"],
        json!("resubmitted")
    );
    assert_ne!(uid(&scene, "failing"), first);
    assert_eq!(content(&scene, "failing"), "first");
    scene.until("failing", "failed", None);
    let sets = ["--set", "environment.env.SIM_EXIT=0"];
    let run = scene.gpuctl(&[&["restart", "fail*", "--yes"][..], &sets].concat());
    assert!(run.ok().out.contains("failing: submitted again"));
    scene.until("failing", "succeeded", None);
    assert_eq!(content(&scene, "failing"), "first");
}

#[test]
fn restart_with_a_changed_field_updates_a_service_and_replaces_a_training() {
    let scene = Scene::with_nodes("again-set", 1);
    let image = ["--set", "environment.image=other", "-o", "json"];
    let yaml = training_with_file(&scene, "lora", 3600);
    scene.gpuctl(&["create", "-f", yaml.to_str().unwrap()]).ok();
    let service = scene.service("web", "vllm", 1, "");
    scene.gpuctl_with(&["create", "-f", "-"], &service).ok();
    for (name, kind, status) in [
        ("lora", "job", "resubmitted"),
        ("web", "deployment", "updated"),
    ] {
        scene.until(name, "running", None);
        let before = uid_of(&scene, kind, name);
        let restart = [&["restart", name][..], &image].concat();
        assert_eq!(scene.gpuctl(&restart).ok().json()["status"], status);
        let after = scene.get(&[kind, name]);
        assert_eq!(after["metadata"]["uid"] == before, status == "updated");
        let containers = &after["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["image"], "other", "{name}");
        scene.until(name, "running", None);
        assert_eq!(
            scene.gpuctl(&restart).ok().json()["status"],
            "unchanged",
            "{name}"
        );
    }
}

#[test]
fn concurrent_runs_of_apply_create_one_job() {
    const RUNS: usize = 20;
    const ROUNDS: usize = 4;
    let scene = Scene::with_nodes("again-race", 1);
    for round in 0..ROUNDS {
        let name = format!("race-{round}");
        let yaml = training_with_file(&scene, &name, 3600);
        let claim = "\nstorage: {workdirs: [{path: /out, size: 1Gi}]}\n";
        let text = fs::read_to_string(&yaml).unwrap() + claim;
        fs::write(&yaml, text).unwrap();
        let arguments = ["apply", "-f", yaml.to_str().unwrap(), "-o", "json"];
        let children: Vec<_> = (0..RUNS).map(|_| scene.start(&arguments)).collect();
        let mut actions: Vec<String> = children
            .into_iter()
            .map(|child| finish(child, Duration::from_secs(120)).ok().json()["action"].to_string())
            .collect();
        actions.sort();
        let mut expected = vec!["\"created\"".to_owned()];
        expected.resize(RUNS, "\"unchanged\"".to_owned());
        assert_eq!(actions, expected, "round {round}");
        let owners = &scene.get(&["configmap", &format!("{name}-files")])["metadata"];
        assert_eq!(owners["ownerReferences"][0]["uid"], uid(&scene, &name));
    }
    assert_eq!(items(&scene.get(&["jobs"])).len(), ROUNDS);
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
fn files_that_an_earlier_apply_changed_reach_a_running_training_with_replace() {
    let scene = Scene::with_nodes("again-earlier", 1);
    let yaml = training_with_file(&scene, "running", 3600);
    let path = yaml.to_str().unwrap();
    scene.gpuctl(&["create", "-f", path]).ok();
    scene.until("running", "running", None);
    let replace = || scene.gpuctl(&["apply", "-f", path, "--replace"]).ok();
    let first = uid(&scene, "running");
    let again = replace();
    assert!(
        again.out.contains("unchanged"),
        "{} {}",
        again.out,
        again.err
    );
    assert_eq!(uid(&scene, "running"), first);
    fs::write(yaml.with_file_name("train.py"), "second").unwrap();
    let old_files = "keep the old files until they restart: gpuctl restart again-earlier/running";
    // The cluster stores the new files after the first run, but the pods still have the old ones.
    for result in ["updated", "unchanged"] {
        let run = scene.gpuctl(&["apply", "-f", path]).ok().says(old_files);
        assert!(run.out.contains(result), "{}", run.out);
    }
    assert!(replace().out.contains("replaced"));
    let second = uid(&scene, "running");
    assert_ne!(second, first);
    scene.until("running", "running", None);
    // The pods of the replacement have the new files.
    assert!(replace().out.contains("unchanged"));
    assert_eq!(uid(&scene, "running"), second);

    // Pods that were restarted after a change have the new files too.
    fs::write(yaml.with_file_name("train.py"), "third").unwrap();
    scene.gpuctl(&["apply", "-f", path]).ok().says(old_files);
    let pod = scene.pods("running").remove(0)["metadata"]["uid"].clone();
    // Kubernetes records times in whole seconds.
    std::thread::sleep(Duration::from_secs(2));
    scene.gpuctl(&["restart", "running"]).ok();
    scene.get_until(&["pods", "-l", "gpuctl/job=running"], |pods| {
        let is_new =
            |item: &Value| item["metadata"]["uid"] != pod && item["status"]["phase"] == "Running";
        items(pods).iter().any(is_new)
    });
    let run = scene.gpuctl(&["apply", "-f", path]).ok();
    assert!(
        run.out.contains("unchanged") && !run.err.contains("old files"),
        "{}",
        run.err
    );
    assert!(replace().out.contains("unchanged"));
    assert_eq!(uid(&scene, "running"), second);
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
