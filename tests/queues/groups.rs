//! Services whose replicas span several nodes, by a real LeaderWorkerSet.

use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Options, Persona};
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
fn until_pods(scene: &Scene, count: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    while pods(scene).len() != count {
        assert!(
            Instant::now() < end,
            "{} pods instead of {count}",
            pods(scene).len()
        );
        thread::sleep(Duration::from_millis(300));
    }
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
            .contains("vllm gets --nnodes=2 --node-rank=$(NODE_RANK)"),
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
    first_pods_answer_and_the_others_follow(&scene);
    it_is_one_workload(&scene);
    what_nodes_there_are_by_now_restarts_nothing(&scene);
    others_see_it_and_whoever_may_not_is_not_bothered(&scene);
    it_is_scaled_paused_and_restarted_by_replicas(&scene);
    scene
        .gpuctl(
            &["apply", "-f", "-"],
            &BIG.replace("replicas: 2", "replicas: 1"),
        )
        .ok();
    until_pods(&scene, 2);
    scene.gpuctl(&["delete", "job", "big", "--force"], "").ok();
    until_pods(&scene, 0);
    let left = scene.admin.json(&[
        "get",
        "services,leaderworkersets,statefulsets",
        "-l",
        "gpuctl/job=big",
    ]);
    assert_eq!(left["items"], json!([]));
}

fn first_pods_answer_and_the_others_follow(scene: &Scene) {
    let answering = || {
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
    let end = Instant::now() + Duration::from_secs(30);
    while answering() != ["big-0", "big-1"] {
        assert!(Instant::now() < end, "{:?}", answering());
        thread::sleep(Duration::from_millis(300));
    }
    for pod in pods(scene) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let leads = ["big-0", "big-1"].contains(&name);
        let container = &pod["spec"]["containers"][0];
        let words: Vec<&str> = container["command"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(words.contains(&"--headless"), !leads, "{name}: {words:?}");
        assert_eq!(container["readinessProbe"].is_null(), !leads, "{name}");
        // A reference works only behind what it refers to.
        let variables: Vec<&str> = container["env"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|variable| variable["name"].as_str())
            .collect();
        let place = |wanted: &str| {
            variables
                .iter()
                .position(|name| *name == wanted)
                .unwrap_or_else(|| panic!("{wanted}"))
        };
        assert!(
            place("LWS_LEADER_ADDRESS") < place("MASTER_ADDR")
                && place("LWS_WORKER_INDEX") < place("NODE_RANK")
        );
        let address = &container["env"][place("LWS_LEADER_ADDRESS")]["value"];
        let group = if name.starts_with("big-0") {
            "big-0"
        } else {
            "big-1"
        };
        assert_eq!(*address, format!("{group}.{group}.default"), "{name}");
    }
}

fn it_is_one_workload(scene: &Scene) {
    let list = scene
        .gpuctl(&["get", "workloads", "-o", "json"], "")
        .ok()
        .json();
    let found: Vec<&Value> = list["items"]
        .as_array()
        .or(list["data"].as_array())
        .unwrap()
        .iter()
        .collect();
    assert_eq!(found.len(), 1, "{list:#}");
    assert_eq!(found[0]["kind"], "LeaderWorkerSet", "{list:#}");
}

/// The same file, while the nodes are others: another type in the pool, and GPUs shared elsewhere.
fn what_nodes_there_are_by_now_restarts_nothing(scene: &Scene) {
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
    let gpus =
        json!({"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]});
    let mut tainted = in_pool(
        node(
            "wide-tainted",
            Some(("NVIDIA-A100-SXM4-80GB", "81920")),
            &[("nvidia.com/gpu", 8)],
        ),
        "wide",
    );
    tainted["spec"] = gpus;
    scene.cluster.add_nodes(&[shared, tainted]);
    scene.gpuctl(&["apply", "-f", "-"], BIG).ok();
    thread::sleep(Duration::from_secs(3));
    let after = (
        uids(),
        scene.admin.json(&["get", "leaderworkerset", "big"])["metadata"]["generation"].clone(),
    );
    assert_eq!(after, before);
}

fn others_see_it_and_whoever_may_not_is_not_bothered(scene: &Scene) {
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
    let seen = scene
        .gpuctl_as(
            Persona::Alice,
            &["get", "jobs", "-n", "default", "-o", "json"],
            "",
        )
        .ok();
    assert!(!seen.err.contains("may not"), "{}", seen.err);
}

fn it_is_scaled_paused_and_restarted_by_replicas(scene: &Scene) {
    let told = scene.gpuctl(&["scale", "big", "1"], "").ok();
    assert_eq!(told.out, "big: scaled from 2 to 1 replica\n");
    until_pods(scene, 2);
    scene.running("big");
    scene.gpuctl(&["pause", "big"], "").ok();
    let paused = scene.until("big", |job| job["status"] == "paused");
    assert_eq!(paused["podsWanted"], 2);
    until_pods(scene, 0);
    // A file that says the same resumes nothing.
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
    let end = Instant::now() + Duration::from_secs(60);
    while pods(scene)
        .iter()
        .any(|pod| before.contains(&pod["metadata"]["uid"]))
    {
        assert!(Instant::now() < end, "the pods are the old ones");
        thread::sleep(Duration::from_millis(300));
    }
    scene.running("big");
}
