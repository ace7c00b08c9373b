//! Follows every piece of advice that `why` marks as proven, and checks that the pods are then
//! placed. The corpus in `tests/cluster/causes/` tests the causes.

use std::process::Command;

use gpuctl_sandbox::Persona;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::{Value, json};

use crate::delete::silence;
use crate::runner::run;
use crate::support::{A100, GPU, Scene, cluster, file};

const H100: (&str, &str) = ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3");

fn holder(namespace: &str, node: &str, requests: &Value) -> Value {
    let limits = requests
        .get(GPU)
        .map_or(json!({}), |gpus| json!({GPU: gpus}));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("holder-{node}"), "namespace": namespace},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "busybox", "resources": {"requests": requests, "limits": limits}}]}})
}

/// Submits a job that stays pending. Then runs the advised command that contains this text, and
/// waits until the job runs.
#[track_caller]
fn follow_advice(scene: &Scene, name: &str, resources: &str, cause: &str, text: &str) {
    let yaml = format!(
        "kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: busybox, command: [train]}}\nresources: {{{resources}}}\n"
    );
    let path = file(&format!("{}-{name}.yaml", scene.name), &yaml);
    let path = path.to_str().unwrap();
    scene
        .gpuctl(&["create", "-f", path, "--allow-pending"])
        .ok();
    scene.until(name, "pending", Some("Unschedulable"));
    let answer = scene.gpuctl(&["why", name, "-o", "json"]).ok().json();
    assert_eq!(answer["causes"][0]["cause"], cause, "{answer:#}");
    let helps: Vec<&Value> = answer["causes"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|cause| cause["helps"].as_array().unwrap())
        .collect();
    let help = helps
        .iter()
        .find(|help| help["text"].as_str().unwrap().contains(text))
        .unwrap_or_else(|| panic!("{answer:#}"));
    assert_eq!(help["proven"], true, "{help}");
    let command = help["command"].as_str().unwrap().replace("FILE", path);
    let words: Vec<&str> = command.split(' ').collect();
    match words[0] {
        "gpuctl" => drop(scene.gpuctl(&words[1..]).ok()),
        "kubectl" => drop(scene.admin.run(&words[1..])),
        other => panic!("{other}"),
    }
    scene.until(name, "running", None);
    scene.gpuctl(&["delete", "job", name]).ok();
}

#[test]
fn proven_advice_places_the_pods() {
    let scene = Scene::new("advised");
    let h100_node = |name: &str| in_pool(node(name, Some(H100), &[(GPU, 8)]), "0-advised");
    let a100_node = |name: &str| in_pool(node(name, Some(A100), &[(GPU, 8)]), "advised");
    cluster().add_nodes(&[a100_node("advised-0"), h100_node("advised-1")]);
    let load = |requests: Value| {
        scene
            .admin
            .apply(&holder("advised", "advised-0", &requests));
    };
    let clear = || {
        scene.admin.run(&[
            "delete",
            "pod",
            "holder-advised-0",
            "-n",
            "advised",
            "--force",
            "--grace-period=0",
        ])
    };
    load(json!({GPU: "5"}));
    follow_advice(
        &scene,
        "smaller",
        "pool: advised, gpu: 4",
        "insufficient-gpu",
        "with gpu: 3",
    );
    follow_advice(
        &scene,
        "elsewhere",
        "pool: advised, gpu: 4",
        "insufficient-gpu",
        "pool 0-advised has 8 free",
    );
    clear();
    load(json!({"cpu": "90"}));
    follow_advice(
        &scene,
        "cpu",
        "pool: advised, gpu: 1, cpu: 16",
        "insufficient-cpu",
        "with cpu: 6",
    );
    clear();
    load(json!({"memory": "1000Gi"}));
    follow_advice(
        &scene,
        "memory",
        "pool: advised, gpu: 1, memory: 64Gi",
        "insufficient-memory",
        "with memory: 24Gi",
    );
    clear();
    scene.admin.run(&["cordon", "advised-0"]);
    follow_advice(
        &scene,
        "cordon",
        "pool: advised, gpu: 8",
        "cordoned",
        "it fits there",
    );
}

#[test]
fn why_names_holders_and_commands_to_run() {
    let scene = Scene::with_nodes("reads", 1);
    scene.create(
        "first",
        "job: {name: NAME, max_runtime: 2h, retries: 0}\nresources: {pool: POOL, gpu: 6}",
    );
    scene.until("first", "running", None);
    scene.create("second", "resources: {pool: POOL, gpu: 4}");
    scene.until("second", "pending", Some("Unschedulable"));
    let output = scene.gpuctl(&["why", "second"]).ok().out;
    assert!(
        output.starts_with("second waits: 4 a100-80g on one node; reads-0 has 2 free\n  insufficient-gpu on 1 node\n"),
        "{output}"
    );
    assert!(
        output.contains("held by reads/first: 6 GPUs for ")
            && output.contains("and must end within "),
        "{output}"
    );
    assert!(
        output.contains("with gpu: 2, it fits on 1 node now"),
        "{output}"
    );
    assert!(
        output
            .lines()
            .all(|line| line.chars().count() <= 100 || line.trim_start().starts_with("gpuctl")),
        "{output}"
    );
    let all = scene.gpuctl(&["why", "--all"]).ok().out;
    assert!(
        all.starts_with("reads/second  insufficient-gpu (needs 4 GPUs): second waits: "),
        "{all}"
    );
    let list = scene.gpuctl(&["why", "--all", "-o", "json"]).ok().json();
    assert_eq!(
        (list["total"].as_u64(), list["items"][0]["name"].as_str()),
        (Some(1), Some("second"))
    );
    // `why` also explains pods, and workloads given as KIND/NAME.
    let pod = scene.pods("second")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let pod_answer = scene.gpuctl(&["why", &pod, "-o", "json"]).ok().json();
    assert_eq!(
        (
            pod_answer["kind"].as_str(),
            pod_answer["causes"][0]["cause"].as_str()
        ),
        (Some("pod"), Some("insufficient-gpu"))
    );
    let job_answer = scene
        .gpuctl(&["why", "job/second", "-o", "json"])
        .ok()
        .json();
    assert_eq!(job_answer["causes"][0]["cause"], "insufficient-gpu");
    // Without metrics, nothing shows whether its GPUs work.
    let first = scene.gpuctl(&["why", "first"]).ok().out;
    assert!(
        first.starts_with("first is running; not checked: activity of its GPUs (no metrics), "),
        "{first}"
    );
    scene
        .gpuctl(&["why", "secnod"])
        .exits(4)
        .says("did you mean `second`?");
    scene.gpuctl(&["why"]).exits(2);
    let mut without_cluster: Command = scene.command(&["why", "second", "-o", "json"]);
    without_cluster.env("KUBECONFIG", "/nowhere");
    assert_eq!(run(without_cluster, "").exits(2).out, "");
    // A user without rights in the namespace is refused.
    scene
        .seen_by(Persona::Bob)
        .gpuctl(&["why", "second"])
        .exits(5);
}

#[test]
fn why_names_a_node_that_does_not_respond() {
    let scene = Scene::with_nodes("why-silent", 1);
    scene.create("a", "resources: {pool: POOL, gpu: 2}");
    scene.until("a", "running", None);
    silence(&scene, "why-silent-0");
    let pod = scene.pods("a")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    for name in ["a".to_owned(), format!("pod/{pod}")] {
        let answer = scene.gpuctl(&["why", &name, "-o", "json"]).ok().json();
        assert_eq!(answer["causes"][0]["cause"], "node-lost", "{answer:#}");
        let sentence = answer["sentence"].as_str().unwrap();
        assert!(
            sentence.contains("node why-silent-0 of ")
                && sentence.contains("has not responded")
                && sentence.ends_with("Kubelet stopped posting node status"),
            "{sentence}"
        );
    }
    let all = scene.gpuctl(&["why", "--all"]).ok().out;
    assert!(
        all.starts_with("why-silent/a  node-lost (holds 2 GPUs): "),
        "{all}"
    );
}

#[test]
fn why_explains_a_foreign_workload_by_its_own_status() {
    let scene = Scene::with_nodes("jobsets", 1);
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    scene.admin.apply(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobsets.jobset.x-k8s.io"},
        "spec": {"group": "jobset.x-k8s.io", "scope": "Namespaced", "names": {"kind": "JobSet", "plural": "jobsets", "singular": "jobset"},
            "versions": [{"name": "v1alpha2", "served": true, "storage": true, "schema": schema}]}}));
    scene.admin.run(&[
        "wait",
        "--for=condition=Established",
        "crd/jobsets.jobset.x-k8s.io",
    ]);
    let set = |name: &str, rest: Value| {
        let mut object = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name, "namespace": "jobsets"}});
        object
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        scene.admin.apply(&object);
        let owner = scene.get(&["jobset", name])["metadata"]["uid"].clone();
        json!([{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "uid": owner, "controller": true}])
    };
    let job = |owner: &Value, suspend: bool, annotations: Value| {
        let limits = json!({"limits": {GPU: "1"}});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("{}-workers", owner[0]["name"].as_str().unwrap()),
            "namespace": "jobsets", "ownerReferences": owner}, "spec": {"suspend": suspend, "backoffLimit": 0, "template": {
            "metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "nodeSelector": {"gpuctl/pool": "jobsets"},
            "containers": [{"name": "main", "image": "busybox", "resources": limits}]}}}})
    };
    let rests = set("rests", json!({"spec": {"suspend": true}}));
    scene.admin.apply(&job(&rests, true, json!({})));
    let answer = scene
        .gpuctl(&["why", "jobset/rests", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&answer["situation"], &answer["causes"][0]["cause"]),
        (&json!("waiting"), &json!("suspended")),
        "{answer:#}"
    );
    let command = answer["causes"][0]["helps"][0]["command"].as_str().unwrap();
    assert!(
        command.starts_with("kubectl patch jobset rests -n jobsets "),
        "{command}"
    );
    let message = "jobset failed due to reaching max number of restarts";
    let failed = json!([{"type": "Failed", "status": "True", "reason": "ReachedMaxRestarts", "message": message}]);
    let ends = set("ends", json!({"status": {"conditions": failed}}));
    let end = json!({"exitCode": 3, "reason": "Error", "startedAt": "2026-01-31T10:00:00Z", "finishedAt": "2026-01-31T10:51:00Z"});
    let status = json!({"phase": "Failed", "containerStatuses": [{"name": "main", "image": "busybox", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"terminated": end}}]});
    scene.admin.apply(&job(
        &ends,
        false,
        json!({"sandbox/status": status.to_string()}),
    ));
    scene.get_until(&["pods"], |list| {
        list["items"]
            .as_array()
            .is_some_and(|pods| pods.iter().any(|pod| pod["status"]["phase"] == "Failed"))
    });
    let answer = scene
        .gpuctl(&["why", "jobset/ends", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&answer["situation"], &answer["causes"][0]["cause"]),
        (&json!("dead"), &json!("exit-code")),
        "{answer:#}"
    );
    assert_eq!(
        answer["causes"][0]["evidence"][1]["what"], message,
        "{answer:#}"
    );
}
