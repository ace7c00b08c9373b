//! Tests how `doctor` checks nodes, `drain --plan`, and `exclude_nodes`.

use gpuctl_sandbox::Persona;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::{Value, json};

use crate::support::{A100, GPU, Scene, cluster};

/// A pod of the GPU operator that runs on a node.
fn program(app: &str, node: &str, status: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{app}-{node}"), "namespace": "stack", "labels": {"app": app}, "annotations": {"sandbox/status": status.to_string()}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "busybox"}]}})
}

#[test]
fn doctor_names_the_first_broken_component_of_each_node() {
    let scene = Scene::new("stack");
    let unhealthy = node("stack-b", Some(A100), &[(GPU, 8)]);
    let mut without = node("stack-a", None, &[]);
    without["metadata"]["labels"]["nvidia.com/gpu.present"] = json!("true");
    let untyped = node("stack-c", None, &[(GPU, 4)]);
    let mut newer = node("stack-d", Some(A100), &[(GPU, 8)]);
    newer["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = json!("580.1");
    let with_driver = |name: &str| {
        let mut one = node(name, Some(A100), &[(GPU, 8)]);
        one["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = json!("570.1");
        one["metadata"]["labels"]["nvidia.com/gpu.product"] = json!("NVIDIA-STACK-80GB");
        one
    };
    newer["metadata"]["labels"]["nvidia.com/gpu.product"] = json!("NVIDIA-STACK-80GB");
    let mut divided = node("stack-g", Some(A100), &[("nvidia.com/mig-1g.10gb", 7)]);
    divided["metadata"]["labels"]["nvidia.com/mig.config.state"] = json!("failed");
    divided["metadata"]["annotations"] =
        json!({"hami.io/node-handshake": "Deleted_2026.01.31 12:00:00"});
    cluster().add_nodes(&[
        divided,
        unhealthy,
        without,
        untyped,
        newer,
        with_driver("stack-e"),
        with_driver("stack-f"),
    ]);
    let fewer = json!({"status": {"allocatable": {GPU: "6"}}}).to_string();
    scene.admin.run(&[
        "patch",
        "node",
        "stack-b",
        "--subresource=status",
        "--type=merge",
        "-p",
        &fewer,
    ]);
    let waiting = json!({"startTime": "2026-01-31T10:00:00Z", "phase": "Pending", "containerStatuses": [{"name": "main", "image": "busybox", "imageID": "",
        "ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
    scene
        .admin
        .apply(&program("nvidia-driver-daemonset", "stack-a", &waiting));
    scene.get_until(&["pod", "nvidia-driver-daemonset-stack-a"], |pod| {
        pod["status"]["startTime"].is_string()
    });
    // Some nodes can run jobs, so the cluster is degraded and not broken.
    let report = scene.gpuctl(&["doctor", "-o", "json"]).exits(13).json();
    assert_eq!(report["verdict"], "degraded", "{report:#}");
    let finding = |node: &str, check: &str| -> String {
        let checks = report["checks"].as_array().unwrap();
        let check_of_node = checks
            .iter()
            .find(|one| one["node"] == node && one["check"] == check);
        check_of_node.map_or(String::new(), |one| {
            format!(
                "{} {}",
                one["status"].as_str().unwrap(),
                one["message"].as_str().unwrap()
            )
        })
    };
    let driver =
        "fail driver: its pod nvidia-driver-daemonset-stack-a is not ready (CrashLoopBackOff)";
    assert_eq!(finding("stack-a", "gpu-stack"), driver, "{report:#}");
    assert!(
        finding("stack-b", "gpu-stack")
            .starts_with("fail device-plugin: 2 of 8 GPUs are not allocatable"),
        "{report:#}"
    );
    assert_eq!(
        finding("stack-c", "gpu-stack"),
        "fail feature-discovery: no label contains its GPU type"
    );
    assert_eq!(
        finding("stack-d", "siblings"),
        "warn driver 580.1, but 2 of 3 nodes with the same GPUs have 570.1"
    );
    assert_eq!(
        finding("stack-g", "mig"),
        "warn the GPUs are not partitioned: failed"
    );
    assert_eq!(
        finding("stack-g", "hami"),
        "warn HAMi's device plugin no longer responds to its scheduler, so no shares are allocated"
    );
    let checks = report["checks"].as_array().unwrap();
    let sharing = checks.iter().find(|one| one["check"] == "sharing").unwrap();
    assert!(
        sharing["message"]
            .as_str()
            .unwrap()
            .contains("× mig-1g.10gb on "),
        "{sharing}"
    );
    assert!(
        scene
            .gpuctl(&["doctor"])
            .exits(13)
            .out
            .contains("      kubectl logs -n stack nvidia-driver-daemonset-stack-a"),
        "the report prints the fix"
    );
    // For a user without permissions, the report warns about the checks that it could not run.
    let seen = scene
        .seen_by(Persona::Bob)
        .gpuctl(&["doctor", "-o", "json"])
        .exits(13)
        .json();
    assert!(
        seen["checks"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["status"] == "warn"),
        "{seen:#}"
    );
    scene.admin.run(&[
        "delete",
        "node",
        "stack-a",
        "stack-b",
        "stack-c",
        "stack-d",
        "stack-e",
        "stack-f",
        "stack-g",
        "--wait=false",
    ]);
}

#[test]
fn a_drain_plan_changes_nothing() {
    let scene = Scene::new("drained");
    let pool_node = |name: &str, gpus| in_pool(node(name, Some(A100), &[(GPU, gpus)]), "drained");
    cluster().add_nodes(&[pool_node("drained-0", 8)]);
    scene.create("big", "resources: {pool: POOL, gpu: 6}");
    scene.create("small", "resources: {pool: POOL, gpu: 2}");
    scene.until("big", "running", None);
    scene.until("small", "running", None);
    cluster().add_nodes(&[pool_node("drained-1", 4)]);
    let mut log = cluster().pod_log(
        "drained",
        scene.pods("big")[0]["metadata"]["name"].as_str().unwrap(),
        "main",
    );
    log.say("saved checkpoint at step 100");
    let plan = scene
        .gpuctl(&["drain", "drained-0", "--plan", "-o", "json"])
        .ok()
        .json();
    let evictions: Vec<(&str, u64, Option<&str>, bool)> = plan["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["job"].as_str().unwrap(),
                one["gpu"].as_u64().unwrap(),
                one["movesTo"].as_str(),
                one["lastCheckpoint"].is_string(),
            )
        })
        .collect();
    assert_eq!(
        evictions,
        [
            ("big", 6, None, true),
            ("small", 2, Some("drained-1"), false)
        ],
        "{plan:#}"
    );
    assert!(
        scene
            .gpuctl(&["drain", "drained-0", "--plan"])
            .ok()
            .out
            .contains("no node now")
    );
    assert_eq!(scene.job("big")["status"], "running");
    assert!(scene.get(&["node", "drained-0"])["spec"]["unschedulable"].is_null());
    scene
        .gpuctl(&["drain", "drained-9", "--plan"])
        .exits(4)
        .says("did you mean `drained-");
    scene.gpuctl(&["drain", "drained-0"]).exits(2);
}

#[test]
fn exclude_nodes_keeps_a_job_off_nodes() {
    let scene = Scene::with_nodes("left-out", 2);
    scene.create(
        "a",
        "resources: {pool: POOL, gpu: 1, exclude_nodes: left-out-0}",
    );
    scene.until("a", "running", None);
    assert_eq!(scene.pods("a")[0]["spec"]["nodeName"], "left-out-1");
    let unknown = scene.training(
        "b",
        "resources: {pool: POOL, gpu: 1, exclude_nodes: [left-out-9]}",
    );
    scene
        .gpuctl_with(&["create", "-f", "-"], &unknown)
        .ok()
        .says("node `left-out-9` does not exist");
    let none = scene.training(
        "c",
        "resources: {pool: POOL, gpu: 1, exclude_nodes: [left-out-0, left-out-1]}",
    );
    scene
        .gpuctl_with(&["create", "-f", "-"], &none)
        .exits(3)
        .says("no node in pool `left-out` except those in `exclude_nodes` has GPUs");
}
