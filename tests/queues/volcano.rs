//! Trainings under Volcano's scheduler and controller: 64 ranks whole or not at all, in the queue
//! that the job names.

use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::Options;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::json;

use crate::support::Scene;

const RANKS: usize = 64;

fn training(name: &str, more: &str, gpus: usize, ranks: usize) -> String {
    format!(
        "kind: training\nversion: v0.1\njob: {{name: {name}{more}}}\nenvironment: {{image: busybox, command: [train]}}\n\
         resources: {{pool: gang, gpu: {gpus}, node_count: {ranks}}}\n"
    )
}

/// Pods of a job that have a node.
fn placed(scene: &Scene, job: &str) -> usize {
    let list = scene
        .admin
        .json(&["get", "pods", "-l", &format!("gpuctl/job={job}")]);
    let pods = list["items"].as_array().cloned().unwrap_or_default();
    pods.iter()
        .filter(|pod| pod["spec"]["nodeName"].is_string() && pod["status"]["phase"] != "Failed")
        .count()
}

#[test]
fn trainings_in_volcano_s_queues() {
    let scene = Scene::new(&Options {
        with_volcano: true,
        ..Options::default()
    });
    let gpus = |index: usize| {
        in_pool(
            node(
                &format!("gang-{index}"),
                Some(("NVIDIA-A100-SXM4-80GB", "81920")),
                &[("nvidia.com/gpu", 8)],
            ),
            "gang",
        )
    };
    scene
        .cluster
        .add_nodes(&(0..12).map(gpus).collect::<Vec<_>>());
    let queue = |name: &str, gpus: usize| {
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": false, "capability": {"nvidia.com/gpu": gpus, "cpu": "1000", "memory": "1000Gi", "pods": "1000"}}})
    };
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [queue("research", 8), queue("large", 96)]}));
    a_queue_holds_back_what_exceeds_it(&scene);
    two_that_compete_never_share(&scene);
}

fn a_queue_holds_back_what_exceeds_it(scene: &Scene) {
    for name in ["first", "second"] {
        scene
            .gpuctl(
                &["create", "-f", "-"],
                &training(name, ", queue: research", 4, 2),
            )
            .ok();
        // The first is to be there first.
        if name == "first" {
            scene.until("first", |job| job["status"] == "running");
        }
    }
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        assert_eq!(
            (placed(scene, "first"), placed(scene, "second")),
            (2, 0),
            "the queue has 8 GPUs"
        );
        thread::sleep(Duration::from_millis(500));
    }
    let second = scene.job("second");
    assert_eq!(
        (&second["status"], &second["queue"], &second["gpuHeld"]),
        (&json!("pending"), &json!("research"), &json!(0))
    );
    let why = scene
        .gpuctl(&["why", "second", "-o", "json"], "")
        .ok()
        .json();
    assert_eq!(
        (
            &why["causes"][0]["cause"],
            why["sentence"].as_str().unwrap()
        ),
        (
            &json!("queue-quota"),
            "second waits: Volcano queue research uses 8 of 8 GPUs, and the job requests 8"
        )
    );
    let queues = scene
        .gpuctl(&["get", "queues", "-o", "json"], "")
        .ok()
        .json();
    let research = queues["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "research")
        .cloned()
        .unwrap();
    assert_eq!(
        (
            &research["system"],
            &research["gpuQuota"],
            &research["gpuUsed"]
        ),
        (&json!("volcano"), &json!(8), &json!(8))
    );
    scene
        .gpuctl(
            &["create", "-f", "-"],
            &training("other", ", queue: reserch", 1, 2),
        )
        .exits(4)
        .says("queue `reserch` does not exist; Volcano has");
    scene
        .gpuctl(&["delete", "job", "first", "--force"], "")
        .ok();
    scene.until("second", |job| job["status"] == "running");
    scene
        .gpuctl(&["delete", "job", "second", "--force"], "")
        .ok();
}

/// 64 of 96 GPUs each: without gangs the second would hold 32 of them and wait for ever.
fn two_that_compete_never_share(scene: &Scene) {
    thread::scope(|scope| {
        for name in ["one", "two"] {
            scope.spawn(move || {
                scene
                    .gpuctl(
                        &["create", "-f", "-"],
                        &training(name, ", queue: large", 1, RANKS),
                    )
                    .ok()
            });
        }
    });
    let both = || {
        let mut both = [placed(scene, "one"), placed(scene, "two")];
        both.sort_unstable();
        both
    };
    let end = Instant::now() + Duration::from_secs(90);
    while both() != [0, RANKS] {
        assert!(Instant::now() < end, "none was placed whole: {:?}", both());
        thread::sleep(Duration::from_millis(300));
    }
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        assert_eq!(both(), [0, RANKS]);
        thread::sleep(Duration::from_millis(500));
    }
    let (winner, loser) = if placed(scene, "one") == RANKS {
        ("one", "two")
    } else {
        ("two", "one")
    };
    assert_eq!(scene.job(loser)["gpuHeld"], 0);
    let why = |name: &str| scene.gpuctl(&["why", name, "-o", "json"], "").ok().json();
    assert_eq!(
        why(loser)["sentence"],
        format!("{loser} waits: Volcano queue large uses 64 of 96 GPUs, and the job requests 64")
    );
    // A queue without a limit: 32 GPUs are free.
    scene
        .gpuctl(
            &["create", "-f", "-", "--allow-pending"],
            &training("wide", ", gang: volcano", 1, 40),
        )
        .ok();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = why("wide");
        let causes = answer["causes"].as_array().unwrap();
        let told = |cause: &serde_json::Value| {
            cause["evidence"][0]["what"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let gang = causes
            .iter()
            .find(|cause| cause["cause"] == "gang-incomplete")
            .map(told);
        // Volcano says so itself after its next look at the group.
        let told = causes
            .iter()
            .flat_map(|cause| cause["evidence"].as_array().unwrap());
        let mut said = told
            .map(|one| one["what"].as_str().unwrap())
            .filter(|what| what.starts_with("Volcano reports about its group: "));
        if gang.as_deref()
            == Some("32 of 40 pods fit now, but they are scheduled together or not at all")
            && said.next().is_some()
        {
            assert_eq!(causes[0]["cause"], "insufficient-gpu", "{answer:#}");
            break;
        }
        assert!(Instant::now() < end, "{answer:#}");
        thread::sleep(Duration::from_millis(500));
    }
    scene.gpuctl(&["delete", "job", "wide", "--force"], "").ok();
    scene.gpuctl(&["delete", "job", winner, "--force"], "").ok();
    scene.until(loser, |job| job["status"] == "running");
}
