//! Tests services whose replicas span several nodes, with a real LeaderWorkerSet.

use std::thread;
use std::time::Duration;

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Options, Persona, eventually};
use serde_json::{Value, json};

use crate::support::Scene;

const BIG: &str = "kind: inference\nversion: v0.1\njob: {name: big}\n\
    environment: {image: vllm:1, command: [vllm, serve, some/model, --tensor-parallel-size, '16']}\n\
    resources: {gpu: 8, node_count: 2, pool: wide}\nservice: {port: 8000, replicas: 2}\n";

fn pods(scene: &Scene) -> Vec<Value> {
    let list = scene.admin.json(&["get", "pods", "-l", "gpuctl/job=big"]);
    list["items"].as_array().cloned().unwrap_or_default()
}

#[track_caller]
fn wait_for_pods(scene: &Scene, count: usize) {
    eventually(
        &format!("big has {count} pods"),
        Duration::from_secs(60),
        || {
            let actual = pods(scene).len();
            (actual == count).then_some(()).ok_or(actual)
        },
    );
}

#[test]
fn a_replica_spans_nodes() {
    let scene = Scene::new(&Options {
        with_lws: true,
        ..Options::default()
    });
    let gpus = |name: &str| {
        in_pool(
            node(
                name,
                Some(("NVIDIA-A100-SXM4-80GB", "81920")),
                &[("nvidia.com/gpu", 8)],
            ),
            "wide",
        )
    };
    let nodes: Vec<Value> = (0..4).map(|index| gpus(&format!("wide-{index}"))).collect();
    scene.cluster.add_nodes(&nodes);
    let plain = BIG
        .replace("{name: big}", "{name: big-1}")
        .replace(", node_count: 2", "");
    scene.create(&plain);
    scene
        .gpuctl(&["create", "-f", "-"], BIG)
        .exits(1)
        .says("service `big-1` exists, but replica 1 of `big` needs that name");
    scene
        .gpuctl(&["delete", "job", "big-1", "--force"], "")
        .ok();
    let created = scene.create(BIG);
    assert!(
        created
            .out
            .contains("2 replicas × 2 nodes × 8 GPUs, pool wide"),
        "{}",
        created.out
    );
    assert!(
        created
            .err
            .contains("adding --nnodes=2 --node-rank=$(NODE_RANK)"),
        "{}",
        created.err
    );
    let job = scene.until("big", |job| {
        job["status"] == "running" && job["podsRunning"] == 4 && job["reason"].is_null()
    });
    assert_eq!(
        (&job["podsWanted"], &job["gpu"], &job["gpuHeld"]),
        (&json!(4), &json!(32), &json!(32)),
        "{job:#}"
    );
    only_leaders_serve_requests(&scene);
    the_service_is_one_workload(&scene);
    apply_on_changed_nodes_restarts_nothing(&scene);
    a_user_without_access_to_the_crd_gets_no_warning(&scene);
    scale_pause_and_restart_act_on_replicas(&scene);
    scene
        .gpuctl(
            &["apply", "-f", "-"],
            &BIG.replace("replicas: 2", "replicas: 1"),
        )
        .ok();
    wait_for_pods(&scene, 2);
    scene.gpuctl(&["delete", "job", "big", "--force"], "").ok();
    wait_for_pods(&scene, 0);
    let remaining = scene.admin.json(&[
        "get",
        "services,leaderworkersets,statefulsets",
        "-l",
        "gpuctl/job=big",
    ]);
    assert_eq!(remaining["items"], json!([]));
}

fn only_leaders_serve_requests(scene: &Scene) {
    let endpoints_of_service = || {
        let slices = scene.admin.json(&[
            "get",
            "endpointslices",
            "-l",
            "kubernetes.io/service-name=big",
        ]);
        let endpoints = slices["items"][0]["endpoints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let mut names: Vec<Value> = endpoints
            .into_iter()
            .map(|endpoint| endpoint["targetRef"]["name"].clone())
            .collect();
        names.sort_by_key(Value::to_string);
        names
    };
    eventually(
        "only the leaders are endpoints",
        Duration::from_secs(30),
        || {
            let names = endpoints_of_service();
            (names == ["big-0", "big-1"]).then_some(()).ok_or(names)
        },
    );
    for pod in pods(scene) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let is_leader = ["big-0", "big-1"].contains(&name);
        let container = &pod["spec"]["containers"][0];
        let words: Vec<&str> = container["command"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(
            words.contains(&"--headless"),
            !is_leader,
            "{name}: {words:?}"
        );
        assert_eq!(container["readinessProbe"].is_null(), !is_leader, "{name}");
        // A variable can only refer to variables that precede it in the list.
        let variables: Vec<&str> = container["env"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|variable| variable["name"].as_str())
            .collect();
        let position = |variable: &str| {
            variables
                .iter()
                .position(|name| *name == variable)
                .unwrap_or_else(|| panic!("{variable}"))
        };
        assert!(
            position("LWS_LEADER_ADDRESS") < position("MASTER_ADDR")
                && position("LWS_WORKER_INDEX") < position("NODE_RANK")
        );
        let address = &container["env"][position("LWS_LEADER_ADDRESS")]["value"];
        let group = if name.starts_with("big-0") {
            "big-0"
        } else {
            "big-1"
        };
        assert_eq!(*address, format!("{group}.{group}.default"), "{name}");
    }
}

fn the_service_is_one_workload(scene: &Scene) {
    let list = scene
        .gpuctl(&["get", "workloads", "-o", "json"], "")
        .ok()
        .json();
    let workloads: Vec<&Value> = list["items"]
        .as_array()
        .or(list["data"].as_array())
        .unwrap()
        .iter()
        .collect();
    assert_eq!(workloads.len(), 1, "{list:#}");
    assert_eq!(workloads[0]["kind"], "LeaderWorkerSet", "{list:#}");
}

/// Applies the same file after the pool has gained a tainted node and a GPU type with shared GPUs.
fn apply_on_changed_nodes_restarts_nothing(scene: &Scene) {
    let uids = || {
        let mut uids: Vec<Value> = pods(scene)
            .iter()
            .map(|pod| pod["metadata"]["uid"].clone())
            .collect();
        uids.sort_by_key(Value::to_string);
        uids
    };
    let before = (
        uids(),
        scene.admin.json(&["get", "leaderworkerset", "big"])["metadata"]["generation"].clone(),
    );
    let mut shared = in_pool(
        node(
            "wide-shared",
            Some(("NVIDIA-H100-80GB-HBM3", "81920")),
            &[("nvidia.com/gpu", 32)],
        ),
        "wide",
    );
    shared["metadata"]["labels"]["nvidia.com/gpu.replicas"] = json!("4");
    let taints =
        json!({"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]});
    let mut tainted = in_pool(
        node(
            "wide-tainted",
            Some(("NVIDIA-A100-SXM4-80GB", "81920")),
            &[("nvidia.com/gpu", 8)],
        ),
        "wide",
    );
    tainted["spec"] = taints;
    scene.cluster.add_nodes(&[shared, tainted]);
    scene.gpuctl(&["apply", "-f", "-"], BIG).ok();
    // A restart would begin within a few seconds.
    thread::sleep(Duration::from_secs(3));
    let after = (
        uids(),
        scene.admin.json(&["get", "leaderworkerset", "big"])["metadata"]["generation"].clone(),
    );
    assert_eq!(after, before);
}

fn a_user_without_access_to_the_crd_gets_no_warning(scene: &Scene) {
    let alice = format!("--user={}", Persona::Alice.user());
    scene.admin.run(&[
        "create",
        "rolebinding",
        "edit",
        "-n",
        "default",
        "--clusterrole=edit",
        &alice,
    ]);
    let listed = scene
        .gpuctl_as(
            Persona::Alice,
            &["get", "jobs", "-n", "default", "-o", "json"],
            "",
        )
        .ok();
    assert!(!listed.err.contains("not allowed"), "{}", listed.err);
}

fn scale_pause_and_restart_act_on_replicas(scene: &Scene) {
    let scaled = scene.gpuctl(&["scale", "big", "1"], "").ok();
    assert_eq!(scaled.out, "big: scaled from 2 to 1 replica\n");
    wait_for_pods(scene, 2);
    scene.running("big");
    scene.gpuctl(&["pause", "big"], "").ok();
    let paused = scene.until("big", |job| job["status"] == "paused");
    assert_eq!(paused["podsWanted"], 2);
    wait_for_pods(scene, 0);
    // Applying the same file does not resume the job.
    scene
        .gpuctl(
            &["apply", "-f", "-"],
            &BIG.replace("replicas: 2", "replicas: 1"),
        )
        .ok();
    assert_eq!(scene.job("big")["status"], "paused");
    scene.gpuctl(&["resume", "big"], "").ok();
    scene.running("big");
    let before: Vec<Value> = pods(scene)
        .iter()
        .map(|pod| pod["metadata"]["uid"].clone())
        .collect();
    scene.gpuctl(&["restart", "big"], "").ok();
    eventually("all pods are new", Duration::from_secs(60), || {
        pods(scene)
            .iter()
            .all(|pod| !before.contains(&pod["metadata"]["uid"]))
    });
    scene.running("big");
}
