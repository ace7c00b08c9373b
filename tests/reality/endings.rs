//! Tests how jobs end and are replaced when real containers take time to terminate.

use std::io::{BufRead, BufReader};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::runner::finish;
use crate::support::{Scene, eventually, file};

/// The log lines that a training writes while it saves its last checkpoint must not be lost.
#[test]
fn logs_follow_until_the_last_container_ends() {
    let scene = Scene::new("real-follow");
    scene.train("save", "exec train --steps 100000 --grace 4s", "");
    scene.until("save", "running", None);
    let follower = scene.start(&["logs", "save", "-f"]);
    // Let the follower connect before the job is deleted.
    thread::sleep(Duration::from_secs(2));
    scene.gpuctl(&["delete", "job", "save", "--no-wait"]).ok();
    let log = finish(follower, Duration::from_secs(60));
    assert!(
        log.out.contains("told to end, saving") && log.out.contains("saved checkpoint of step"),
        "{}\n{}",
        log.out,
        log.err
    );
}

#[test]
fn a_deleted_job_is_terminating_while_it_holds_gpus() {
    let scene = Scene::new("real-leftover");
    scene.train(
        "slow",
        "trap 'sleep 12; exit 0' TERM; echo ready; while true; do sleep 0.2; done",
        "",
    );
    scene.until("slow", "running", None);
    eventually("the trap is set", || {
        let log = scene.gpuctl(&["logs", "slow"]).out;
        if log.contains("ready") {
            Ok(())
        } else {
            Err(log)
        }
    });
    scene.gpuctl(&["delete", "job", "slow", "--no-wait"]).ok();
    let job = scene.until("slow", "terminating", None);
    assert_eq!(
        job["gpus"]["held"]
            .as_u64()
            .or_else(|| job["gpuHeld"].as_u64())
            .unwrap_or(1),
        1,
        "{job:#}"
    );
    let described = scene.gpuctl(&["describe", "job", "slow"]).ok().out;
    assert!(described.contains("terminating"), "{described}");
    let deleted = scene.gpuctl(&["delete", "job", "slow", "--force"]);
    assert!(
        deleted.code == 0 || deleted.code == 4,
        "{} {}",
        deleted.out,
        deleted.err
    );
}

#[test]
fn wait_after_an_image_change_waits_for_the_new_pods() {
    let scene = Scene::new("real-rollout");
    let yaml = |image: &str, command: &str| {
        format!(
            "kind: inference\nversion: v0.1\njob: {{name: web}}\nenvironment: {{image: '{image}', command: [{command}]}}\nservice: {{replicas: 1, port: 8000}}\nresources: {{pool: real, gpu: 1}}\n"
        )
    };
    scene
        .gpuctl_with(
            &["apply", "-f", "-", "--wait", "--timeout", "90s"],
            &yaml("toolbox:1", "serve, '8000'"),
        )
        .ok();
    let broken = scene.gpuctl_with(
        &["apply", "-f", "-", "--wait", "--timeout", "15s"],
        &yaml("nowhere.invalid/web:2", "serve, '8000'"),
    );
    assert_ne!(broken.code, 0, "{} {}", broken.out, broken.err);
    let started = Instant::now();
    scene
        .gpuctl_with(
            &["apply", "-f", "-", "--wait", "--timeout", "90s"],
            &yaml("toolbox:1", "serve, ':8000'"),
        )
        .ok();
    let pods: Vec<_> = scene
        .pods("web")
        .into_iter()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        .collect();
    assert_eq!(pods.len(), 1, "after {:?}: {pods:#?}", started.elapsed());
    assert_eq!(
        pods[0]["spec"]["containers"][0]["command"],
        json!(["serve", ":8000"])
    );
    scene.gpuctl(&["delete", "job", "web", "--force"]).ok();
}

/// A StatefulSet does not replace a pod that was never ready (kubernetes#67250), so `apply` deletes
/// that pod.
#[test]
fn a_notebook_with_a_broken_image_is_repaired() {
    let scene = Scene::new("real-notebook");
    let yaml = |image: &str| {
        format!(
            "kind: notebook\nversion: v0.1\njob: {{name: book}}\nenvironment: {{image: '{image}', command: [serve, '8888']}}\nresources: {{pool: real, gpu: 1}}\n"
        )
    };
    scene
        .gpuctl_with(&["apply", "-f", "-"], &yaml("nowhere.invalid/book:1"))
        .ok();
    eventually("the pull fails", || {
        let job = scene.job("book");
        if job["reason"] == "ImagePullBackOff" || job["reason"] == "ErrImagePull" {
            Ok(())
        } else {
            Err(job)
        }
    });
    let applied = scene
        .gpuctl_with(
            &["apply", "-f", "-", "--wait", "--timeout", "90s"],
            &yaml("toolbox:1"),
        )
        .ok();
    scene.until("book", "running", None);
    assert!(
        applied.out.contains("updated") || applied.err.contains("updated"),
        "{} {}",
        applied.out,
        applied.err
    );
    scene.gpuctl(&["delete", "job", "book", "--force"]).ok();
}

/// tar exits at once if it cannot write. gpuctl must not wait until tar has read all its input.
#[test]
fn a_copy_refused_by_the_container_fails_with_the_reason() {
    let scene = Scene::new("real-copy");
    scene.train("copy", "sleep 600", "");
    scene.until("copy", "running", None);
    let big = file("big");
    std::fs::write(&big, vec![7_u8; 8 << 20]).unwrap();
    let big = big.display().to_string();
    scene.gpuctl(&["cp", &big, "copy:/tmp/"]).ok();
    let back = file("back").display().to_string();
    scene.gpuctl(&["cp", "copy:/tmp/big", &back]).ok();
    assert_eq!(std::fs::read(&big).unwrap(), std::fs::read(&back).unwrap());
    let started = Instant::now();
    let refused = scene.gpuctl(&["cp", &big, "copy:/proc/"]);
    assert_ne!(refused.code, 0);
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    assert!(
        refused.err.contains("/proc") || refused.err.contains("tar"),
        "{}",
        refused.err
    );
    scene.gpuctl(&["delete", "job", "copy", "--force"]).ok();
}

/// Creates a claim `results` with a volume in a folder of the real node.
fn claim_results(scene: &Scene, volume: &str) {
    let folder = crate::support::cluster()
        .on_real_node(0, |node| node.data())
        .join(volume);
    std::fs::create_dir_all(&folder).unwrap();
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "claimRef": {"namespace": scene.name, "name": "results"},
            "local": {"path": format!("/var/lib/gpuctl-sandbox/{volume}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-real-0"]}]}]}}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "results", "namespace": scene.name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "resources": {"requests": {"storage": "1Gi"}}}},
    ]}));
}

/// The pod of a copy needs `sleep`, which such an image does not have.
#[test]
fn an_image_without_a_shell_leads_to_another_image() {
    let scene = Scene::new("real-bare");
    claim_results(&scene, "bare");
    let extra = "job: {name: bare, max_runtime: 6s, retries: 0}\n\
        environment: {image: 'registry.k8s.io/pause:3.10.1', command: [/pause]}\n\
        storage: {workdirs: [{pvc: results, path: /out}]}";
    scene.train("bare", "", extra);
    scene.until("bare", "failed", None);
    let target = file("bare").display().to_string();
    let refused = scene.gpuctl(&["cp", "bare:/out/x", &target]);
    assert_ne!(refused.code, 0, "{}", refused.out);
    refused
        .says("cannot read the claims")
        .says("mount the claim in a job whose image has `sh`, `sleep` and `tar`");
    scene.gpuctl(&["delete", "job", "bare"]).ok();
}

/// Only the claim outlives the pods, so another pod with the same paths reads it.
#[test]
fn results_are_copied_after_the_end() {
    let scene = Scene::new("real-after");
    claim_results(&scene, "after");
    scene.train(
        "done",
        "mkdir -p /out/model && echo weights > /out/model/file && echo gone > /tmp/file",
        "storage: {workdirs: [{pvc: results, path: /out}]}",
    );
    scene.until("done", "succeeded", None);
    let local = file("after");
    let target = local.display().to_string();
    scene
        .gpuctl(&["cp", "done:/out/model", &target])
        .ok()
        .says("starting pod real-after/done-cp-");
    assert_eq!(
        std::fs::read_to_string(local.join("file")).unwrap(),
        "weights\n"
    );
    scene
        .gpuctl(&["cp", "done:/tmp/file", &target])
        .exits(4)
        .says("these paths still exist: /out (claim results)");
    scene.gpuctl(&["cp", "done:/out/nothing", &target]).exits(4);
    eventually("the pods are removed", || {
        let pods = scene
            .admin
            .json(&["get", "pods", "-n", "real-after", "-l", "gpuctl/copy-of"]);
        match pods["items"].as_array() {
            Some(pods) if pods.is_empty() => Ok(()),
            _ => Err(pods),
        }
    });
    scene.gpuctl(&["delete", "job", "done"]).ok();
}

/// Notebook images often run as a non-root user.
#[test]
fn a_non_root_user_can_write_a_fresh_volume() {
    let scene = Scene::new("real-volume");
    let folder = crate::support::cluster()
        .on_real_node(0, |node| node.data())
        .join("fresh");
    std::fs::create_dir_all(&folder).unwrap();
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "fresh"}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "claimRef": {"namespace": "real-volume", "name": "home"},
            "local": {"path": "/var/lib/gpuctl-sandbox/fresh"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-real-0"]}]}]}}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "home", "namespace": "real-volume"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "resources": {"requests": {"storage": "1Gi"}}}},
    ]}));
    let yaml = "kind: notebook\nversion: v0.1\njob: {name: book}\n\
        environment: {image: 'toolbox-user:1', command: [sh, -c, 'id; echo mine > /home/jovyan/file && exec serve 8888']}\n\
        resources: {pool: real, gpu: 1}\nsecurity: {run_as: 1000}\nstorage: {workdirs: [{pvc: home, path: /home/jovyan}]}\n";
    scene
        .gpuctl_with(&["create", "-f", "-", "--wait", "--timeout", "60s"], yaml)
        .ok();
    scene
        .gpuctl(&["exec", "book", "--", "cat", "/home/jovyan/file"])
        .ok();
    scene.gpuctl(&["delete", "job", "book", "--force"]).ok();
}

#[test]
fn logs_follow_prints_every_line() {
    let scene = Scene::new("real-lines");
    scene.train(
        "count",
        "for i in 1 2 3 4 5; do echo line $i; sleep 1; done",
        "",
    );
    scene.until("count", "running", None);
    let mut follower = scene.start(&["logs", "count", "-f"]);
    let lines: Vec<String> = BufReader::new(follower.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .collect();
    let _ = follower.wait();
    assert_eq!(lines, ["line 1", "line 2", "line 3", "line 4", "line 5"]);
}
