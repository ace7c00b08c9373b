//! Tests `free`: the reported capacity must match what the real scheduler can place.

use std::thread;
use std::time::Duration;

use gpuctl_sandbox::nodes::{in_pool, node, tainted};
use gpuctl_sandbox::{Persona, eventually};
use serde_json::{Value, json};

use crate::support::{A100, GPU, Scene, cluster};

const RACK: &str = "example.com/rack";

fn free(scene: &Scene, more: &[&str]) -> Value {
    let run = scene
        .gpuctl(&[&["free", "--pool", scene.name, "-o", "json"], more].concat())
        .ok();
    run.json()
}

fn pod(name: &str, on: &str, requests: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "spare"},
        "spec": {"nodeName": on, "containers": [{"name": "main", "image": "busybox",
            "resources": {"requests": requests, "limits": requests}}]}})
}

#[test]
fn free_reports_blocks_gangs_and_stranded_gpus() {
    let scene = Scene::new("spare");
    let gpus = |name: &str| in_pool(node(name, Some(A100), &[(GPU, 8)]), "spare");
    let racked = |name: &str, rack: &str| {
        let mut node = gpus(name);
        node["metadata"]["labels"][RACK] = json!(rack);
        node
    };
    let mut cordoned = gpus("spare-cordoned");
    cordoned["spec"] = json!({"unschedulable": true});
    cluster().add_nodes(&[
        racked("spare-a", "left"),
        racked("spare-b", "left"),
        racked("spare-c", "right"),
        racked("spare-starved", "right"),
        cordoned,
        tainted(gpus("spare-broken"), "example.com/gpu-unhealthy", "true"),
        tainted(gpus("spare-reserved"), "example.com/reserved", "true"),
    ]);
    scene
        .admin
        .apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
            pod("lab", "spare-b", &json!({GPU: "1"})),
            pod("large", "spare-c", &json!({GPU: "5"})),
            // This leaves two of 96 CPUs, so six of the node's eight GPUs are stranded.
            pod("preprocess", "spare-starved", &json!({"cpu": "94"})),
        ]}));
    let capacity = eventually("20 GPUs are free", Duration::from_secs(30), || {
        let answer = free(&scene, &["--slots", "8"]);
        if answer["items"][0]["gpuFree"] == 20 {
            Ok(answer)
        } else {
            Err(answer)
        }
    });
    // Free: 8 on a, 7 on b, 3 on c and 2 on the starved node. Stranded: its other 6, and 8 on each
    // of the last three nodes.
    let group = &capacity["items"][0];
    assert_eq!(
        (&group["gpuType"], &group["gpuTotal"]),
        (&json!("a100-80g"), &json!(56)),
        "{capacity:#}"
    );
    assert_eq!(
        (&group["gpuFree"], &group["gpuStranded"]),
        (&json!(20), &json!(30)),
        "{capacity:#}"
    );
    let blocks = json!([{"gpus": 8, "nodes": 1}, {"gpus": 7, "nodes": 1}, {"gpus": 3, "nodes": 1}, {"gpus": 2, "nodes": 1}]);
    assert_eq!(group["blocks"], blocks);
    assert_eq!(
        group["largestGang"],
        json!({"gpus": 14, "nodes": 2, "gpusPerNode": 7})
    );
    let causes: Vec<(&str, u64)> = group["stranded"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["cause"].as_str().unwrap(),
                one["gpus"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        causes,
        [
            ("node-faulty", 8),
            ("cordoned", 8),
            ("taint", 8),
            ("insufficient-cpu", 6)
        ]
    );
    assert_eq!(group["stranded"][3]["holder"], "spare/preprocess");
    let moves = json!([{"pod": "spare/lab", "gpus": 1, "from": "spare-b", "to": "spare-starved"}]);
    assert_eq!(
        group["slots"],
        json!({"gpus": 8, "jobsNow": 1, "moves": moves})
    );
    let text = scene
        .gpuctl(&["free", "--pool", "spare", "--slots", "8"])
        .ok()
        .out;
    assert_eq!(
        text,
        "TYPE     TOTAL FREE LARGEST GANG       BLOCKS\n\
         a100-80g    56   20 14 GPUs on 2 nodes 1 × 8, 1 × 7, 1 × 3, 1 × 2\n\
         stranded: 8 a100-80g on spare-cordoned, cordoned\n\
         stranded: 8 a100-80g on spare-broken, faulty (example.com/gpu-unhealthy)\n\
         stranded: 8 a100-80g on spare-reserved, tainted (example.com/reserved)\n\
         stranded: 6 a100-80g on spare-starved without enough free CPU (most held by spare/preprocess: 94 CPUs)\n\
         a100-80g: 1 job of 8 fits now; 2 after moving spare/lab (1 GPU) from spare-b to spare-starved\n"
    );
    let by_rack = free(&scene, &["--by", RACK, "--slots", "16"]);
    let rack_group = |rack: &str| {
        by_rack["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|group| group["domain"] == rack)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (
            &rack_group("left")["gpuFree"],
            &rack_group("right")["gpuFree"]
        ),
        (&json!(15), &json!(5)),
        "{by_rack:#}"
    );
    assert_eq!(rack_group("left")["largestGang"]["gpus"], 14);
    check_that_reported_slots_can_be_used(&scene);
    check_that_the_advised_move_works(&scene);
    let alice = scene.seen_by(Persona::Alice);
    alice.gpuctl(&["free"]).exits(5).says("gpuctl auth check");
}

#[test]
fn free_gpus_of_a_node_without_cpu_are_stranded_in_every_list() {
    let scene = Scene::new("tight");
    cluster().add_nodes(&[in_pool(node("tight-a", Some(A100), &[(GPU, 8)]), "tight")]);
    let mut full = pod("preprocess", "tight-a", &json!({"cpu": "95950m"}));
    full["metadata"]["namespace"] = json!("tight");
    scene.admin.apply(&full);
    let read = |command: &[&str]| -> Value {
        let run = scene.gpuctl(&[command, &["-o", "json"]].concat()).ok();
        run.json()
    };
    // 50m of 96 CPUs remain. A container needs 100m, so all 8 GPUs are stranded.
    let list = ["get", "nodes", "--pool", "tight"];
    eventually("no GPU is free", Duration::from_secs(30), || {
        let nodes = read(&list);
        if nodes["items"][0]["gpuFree"] == 0 {
            Ok(())
        } else {
            Err(nodes)
        }
    });
    let described = read(&["describe", "node", "tight-a"]);
    let pool = read(&["describe", "pool", "tight"]);
    for item in [&read(&list)["items"][0], &described["resources"], &pool] {
        assert_eq!(
            ["gpuUsable", "gpuUsed", "gpuFree", "gpuStranded"].map(|field| item[field].as_u64()),
            [Some(8), Some(0), Some(0), Some(8)],
            "{item:#}"
        );
    }
    let text = scene.gpuctl(&["describe", "node", "tight-a"]).ok().out;
    assert!(
        text.contains("0 held, 0 free, 8 without CPU or memory"),
        "{text}"
    );
    // `free` asks for the same CPU here, and finds the same GPUs.
    let group = &free(&scene, &["--cpu", "100m", "--memory", "256Mi"])["items"][0];
    assert_eq!(
        (&group["gpuFree"], &group["gpuStranded"]),
        (&json!(0), &json!(8)),
        "{group:#}"
    );
}

/// Creates pods with three GPUs each. Exactly the reported number of them must run.
fn check_that_reported_slots_can_be_used(scene: &Scene) {
    let slots = free(scene, &["--slots", "3"])["items"][0]["slots"]["jobsNow"]
        .as_u64()
        .unwrap();
    // ⌊8/3⌋ + ⌊7/3⌋ + ⌊3/3⌋ + ⌊2/3⌋
    assert_eq!(slots, 5);
    let names: Vec<String> = (0..=slots).map(|index| format!("three-{index}")).collect();
    for name in &names {
        scene.create(
            name,
            "resources: {pool: POOL, gpu: 3, cpu: 3, memory: 12Gi}",
        );
    }
    let running = || {
        let jobs = scene
            .gpuctl(&[
                "get",
                "jobs",
                "--no-progress",
                "--status",
                "running",
                "-o",
                "json",
            ])
            .ok()
            .json();
        jobs["total"].as_u64().unwrap()
    };
    let what = format!("{slots} jobs run");
    eventually(&what, Duration::from_secs(60), || {
        let jobs = running();
        (jobs == slots).then_some(()).ok_or(jobs)
    });
    // Gives the scheduler time to place one pod too many, which must not happen.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(running(), slots);
    for name in &names {
        scene.gpuctl(&["delete", "job", name, "--force"]).ok();
    }
}

/// Moves the pod as advised. After that, two jobs with eight GPUs each must run.
fn check_that_the_advised_move_works(scene: &Scene) {
    scene
        .admin
        .run(&["delete", "pod", "lab", "-n", "spare", "--wait=true"]);
    scene
        .admin
        .apply(&pod("lab", "spare-starved", &json!({GPU: "1"})));
    for name in ["eight-0", "eight-1"] {
        scene.create(
            name,
            "resources: {pool: POOL, gpu: 8, cpu: 8, memory: 32Gi}",
        );
    }
    for name in ["eight-0", "eight-1"] {
        scene.until(name, "running", None);
        scene.gpuctl(&["delete", "job", name, "--force"]).ok();
    }
}
