//! A job that can never run is refused before anything is written. This is decided by the total
//! capacity of the nodes, not by what is free. A job that can run later is accepted, and one line
//! names the jobs that hold the resources it waits for.

use gpuctl_sandbox::Persona;
use gpuctl_sandbox::nodes::{in_pool, node, tainted};
use serde_json::{Value, json};

use crate::support::{A100, GPU, Scene, cluster, items};

const CREATE: [&str; 3] = ["create", "-f", "-"];

fn nothing_is_written(scene: &Scene) {
    assert_eq!(
        items(&scene.get(&["jobs,services,deployments"])),
        Vec::<Value>::new()
    );
}

#[test]
fn every_submitting_command_refuses_jobs_larger_than_any_node() {
    let scene = Scene::with_nodes("never", 2);
    let job =
        |resources: &str| scene.training("a", &format!("resources: {{pool: POOL, {resources}}}"));
    // Each node of the sandbox has 8 GPUs, 96 CPUs, 1Ti of memory and 2Ti of disk.
    for (resources, message) in [
        (
            "gpu: 16",
            "no node has 16 a100-80g; the largest has 8 (never-0)",
        ),
        (
            "gpu: 8, cpu: 97",
            "no node with 8 a100-80g has 97 CPUs; the largest has 96 (never-0)",
        ),
        (
            "gpu: 1, memory: 2Ti",
            "no node with 1 a100-80g has 2Ti of memory; the largest has 1Ti (never-0)",
        ),
        (
            "gpu: 8, node_count: 3",
            "the eligible nodes can hold only 2 of these pods at once, but the job needs 3 at the same \
             time",
        ),
    ] {
        scene
            .gpuctl_with(&CREATE, &job(resources))
            .exits(3)
            .says(message)
            .says("stdin:5:");
        scene
            .gpuctl_with(&["create", "-f", "-", "--dry-run=server"], &job(resources))
            .exits(3)
            .says(message);
        scene
            .gpuctl_with(&["apply", "-f", "-"], &job(resources))
            .exits(3)
            .says(message);
        let report = scene
            .gpuctl_with(
                &["validate", "-f", "-", "--server", "-o", "json"],
                &job(resources),
            )
            .exits(3)
            .json();
        assert!(
            report["files"][0].to_string().contains(message),
            "{report:#}"
        );
    }
    scene
        .gpuctl(&[
            "run",
            "--name",
            "a",
            "--image",
            "busybox:1",
            "--gpus",
            "9",
            "--pool",
            "never",
            "--",
            "true",
        ])
        .exits(3)
        .says("no node has 9 a100-80g");
    let disk = "resources: {pool: POOL, gpu: 1}\npod: {containers: [{name: main, resources: {requests: {ephemeral-storage: 3Ti}}}]}";
    scene
        .gpuctl_with(&CREATE, &scene.training("a", disk))
        .exits(3)
        .says("no node with 1 a100-80g has 3Ti of ephemeral storage; the largest has 2Ti");
    let service = scene.service("a", "vllm", 1, "resources: {pool: POOL, gpu: 9}");
    scene
        .gpuctl_with(&CREATE, &service)
        .exits(3)
        .says("no node has 9 a100-80g");
    nothing_is_written(&scene);
    let allowed = scene
        .gpuctl_with(
            &["create", "-f", "-", "--allow-pending", "-o", "json"],
            &job("gpu: 16"),
        )
        .ok();
    assert_eq!(allowed.json()["status"], "pending");
    allowed.says("no node has 16 a100-80g");
}

#[test]
fn cordoned_and_broken_nodes_count_and_autoscaled_groups_only_warn() {
    let scene = Scene::new("capacity");
    let mut large = in_pool(node("capacity-large", Some(A100), &[(GPU, 16)]), "capacity");
    large["spec"] = json!({"unschedulable": true});
    let mut broken = in_pool(
        node("capacity-broken", Some(A100), &[(GPU, 4)]),
        "capacity-broken",
    );
    // After its device plugin has crashed, a node has capacity but nothing allocatable.
    broken["status"]["allocatable"][GPU] = json!("0");
    let mut group = in_pool(
        node("capacity-group", Some(A100), &[(GPU, 8)]),
        "capacity-group",
    );
    group["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] = json!("a100");
    cluster().add_nodes(&[large, broken, group]);
    let job = |name: &str, pool: &str, gpus: u32| {
        scene.training(
            name,
            &format!("resources: {{pool: {pool}, gpu: {gpus}, gpu-type: a100-80g}}"),
        )
    };
    let cordoned = scene
        .gpuctl_with(&CREATE, &job("cordoned", "capacity", 16))
        .ok();
    cordoned.says("no eligible node currently accepts new pods");
    scene
        .gpuctl_with(&CREATE, &job("over", "capacity", 17))
        .exits(3)
        .says("no node has 17 a100-80g; the largest has 16");
    scene
        .gpuctl_with(&CREATE, &job("broken", "capacity-broken", 4))
        .ok();
    scene
        .gpuctl_with(&CREATE, &job("worse", "capacity-broken", 5))
        .exits(3)
        .says("the largest has 4 (capacity-broken)");
    let grows = scene
        .gpuctl_with(&CREATE, &job("grows", "capacity-group", 9))
        .ok();
    grows.says("no node has 9 a100-80g; the largest has 8 (capacity-group); the job will never start unless an autoscaler adds a larger node");
}

#[test]
fn a_job_that_must_wait_is_accepted_and_names_the_holders() {
    let scene = Scene::with_nodes("later", 2);
    scene.create("one", "resources: {pool: POOL, gpu: 6}");
    scene.create("two", "resources: {pool: POOL, gpu: 8}");
    scene.until("one", "running", None);
    scene.until("two", "running", None);
    let run = scene
        .gpuctl_with(
            &CREATE,
            &scene.training("c", "resources: {pool: POOL, gpu: 4}"),
        )
        .ok();
    assert!(
        run.err
            .starts_with("no node has 4 a100-80g free now; the most is 2 (later-"),
        "{}",
        run.err
    );
    // The node of `one` has 8 - 6 = 2 free GPUs, and the node of `two` has none.
    run.says("); later/two holds 8, later/one holds 6");
    let fits = scene
        .gpuctl_with(
            &CREATE,
            &scene.training("d", "resources: {pool: POOL, gpu: 2}"),
        )
        .ok();
    assert_eq!(fits.err, "");
    let gang = scene
        .gpuctl_with(
            &CREATE,
            &scene.training("e", "resources: {pool: POOL, gpu: 8, node_count: 2}"),
        )
        .ok();
    gang.says("only 0 of 2 pods fit now; pods that start hold their GPUs while waiting for the rest; later/two holds 8");
    // With `-o json`, the line is a warning object on stderr, and stdout is still one document.
    let run = scene
        .gpuctl_with(
            &["create", "-f", "-", "-o", "json"],
            &scene.training("f", "resources: {pool: POOL, gpu: 4}"),
        )
        .ok();
    assert_eq!(run.json()["jobId"], "f");
    let warning: Value = serde_json::from_str(run.err.lines().next().unwrap()).unwrap();
    assert!(
        warning["message"].as_str().unwrap().contains("free now"),
        "{warning}"
    );
}

/// A node is full, one is cordoned, and Kubernetes keeps pods off the last one. Free GPUs on the
/// last two are of no use.
#[test]
fn free_gpus_of_shut_nodes_do_not_make_room() {
    let scene = Scene::new("shut");
    let gpus = |name: &str| in_pool(node(name, Some(A100), &[(GPU, 8)]), "shut");
    let mut cordoned = gpus("shut-cordoned");
    cordoned["spec"] = json!({"unschedulable": true});
    // The node controller sets and removes `not-ready`, but leaves this taint alone.
    let out_of_service = tainted(
        gpus("shut-down"),
        "node.kubernetes.io/out-of-service",
        "nodeshutdown",
    );
    cluster().add_nodes(&[gpus("shut-open"), cordoned, out_of_service]);
    scene.create("fills", "resources: {pool: POOL, gpu: 8}");
    scene.until("fills", "running", None);
    let waits = scene.training("waits", "resources: {pool: POOL, gpu: 4}");
    let run = scene.gpuctl_with(&CREATE, &waits).ok();
    run.says("no node has 4 a100-80g free now; the most is 0 (shut-open); shut/fills holds 8");
    scene
        .gpuctl_with(
            &["fit", "-f", "-"],
            &scene.training("asks", "resources: {pool: POOL, gpu: 4}"),
        )
        .exits(8);
    let pools = scene.gpuctl(&["get", "pools", "-o", "json"]).ok().json();
    let pool = items(&pools)
        .into_iter()
        .find(|pool| pool["name"] == "shut")
        .unwrap();
    // 24 = 8 held on the open node + 16 on the nodes that accept no pods.
    assert_eq!(
        ["gpuTotal", "gpuUsed", "gpuFree", "gpuCordoned", "gpuUsable"]
            .map(|field| pool[field].as_u64().unwrap()),
        [24, 8, 0, 16, 8],
        "{pool:#}"
    );
    assert_eq!(
        (&pool["nodesUsable"], &pool["status"]),
        (&json!(1), &json!("degraded"))
    );
    let table = scene.gpuctl(&["get", "pools"]).ok().out;
    let row = table
        .lines()
        .find(|line| line.starts_with("shut "))
        .unwrap();
    assert_eq!(row.split_whitespace().nth(2), Some("1/3"), "{table}");
}

#[test]
fn missing_references_are_reported_together() {
    let scene = Scene::with_nodes("names", 1);
    let job = |rest: &str| scene.training("a", rest);
    let storage = "storage: {workdirs: [{path: /m, pvc: models}, {path: /k, secret: keys}, {path: /c, configmap: settings}]}";
    let run = scene
        .gpuctl_with(&["create", "-f", "-", "-o", "json"], &job(storage))
        .exits(4);
    let error: Value = serde_json::from_str(run.err.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"], "ClaimNotFound");
    assert_eq!(
        error["message"],
        "claim `models` does not exist in namespace `names`"
    );
    assert_eq!(
        error["notes"],
        json!([
            "stdin:6:66: secret `keys` does not exist in namespace `names`",
            "stdin:6:95: ConfigMap `settings` does not exist in namespace `names`"
        ])
    );
    assert_eq!(
        (&error["file"], &error["line"], &error["column"]),
        (&json!("stdin"), &json!(6), &json!(38))
    );
    // Two claims are two problems of the file.
    let claims = "storage: {workdirs: [{path: /m, pvc: models}, {path: /n, pvc: numbers}]}";
    scene
        .gpuctl_with(&CREATE, &job(claims))
        .exits(4)
        .says("stdin has 2 problems")
        .says("stdin:6:38: claim `models` does not exist")
        .says("claim `numbers` does not exist");
    let secret = "environment: {image: 'busybox:1', env: [{name: HF_TOKEN, secret: hub}]}";
    scene
        .gpuctl_with(&CREATE, &job(secret))
        .exits(4)
        .says("secret `hub` does not exist")
        .says("gpuctl create secret hub");
    scene.admin.run(&[
        "create",
        "secret",
        "generic",
        "hub",
        "--from-literal=TOKEN=x",
        "-n",
        "names",
    ]);
    scene
        .gpuctl_with(&CREATE, &job(secret))
        .exits(4)
        .says("secret `hub` has no key `HF_TOKEN`; it has TOKEN");
    scene
        .gpuctl_with(
            &CREATE,
            &job("storage: {workdirs: [{path: /d, size: 1Gi, storageClass: none-such}]}"),
        )
        .exits(4)
        .says("storage class `none-such` does not exist");
    scene
        .gpuctl_with(&CREATE, &job("pod: {serviceAccountName: robot}"))
        .exits(4)
        .says("service account `robot` does not exist");
    nothing_is_written(&scene);
    // Objects that another document of the same run creates count as existing objects.
    let both = format!(
        "{}---\n{}",
        scene.training("maker", "storage: {workdirs: [{path: /out, size: 1Gi}]}"),
        scene.training("user", "storage: {workdirs: [{path: /in, pvc: maker-out}]}")
    );
    let created = scene
        .gpuctl_with(&["create", "-f", "-", "-o", "json"], &both)
        .ok()
        .json();
    assert_eq!(
        created["success"].as_array().unwrap().len(),
        2,
        "{created:#}"
    );
    // For an existing job, a missing reference is only a warning.
    let changed = scene.service("web", "vllm", 1, "");
    scene.gpuctl_with(&["apply", "-f", "-"], &changed).ok();
    let lost = scene.service(
        "web",
        "vllm",
        1,
        "storage: {workdirs: [{path: /m, pvc: models}]}",
    );
    scene
        .gpuctl_with(&["apply", "-f", "-"], &lost)
        .ok()
        .says("warning: claim `models` does not exist in namespace `names`");
}

#[test]
fn a_wrong_pool_in_twenty_documents_is_one_error() {
    let scene = Scene::with_nodes("twenty", 1);
    let documents: Vec<String> = (0..20)
        .map(|index| {
            scene.training(
                &format!("trial-{index}"),
                "resources: {pool: twnety, gpu: 1}",
            )
        })
        .collect();
    let run = scene
        .gpuctl_with(&CREATE, &documents.join("---\n"))
        .exits(3)
        .says("stdin has 1 problem")
        .says("did you mean `twenty`?")
        .says("; also in lines 11, 17, ");
    assert_eq!(run.err.matches("there is no pool `twnety`").count(), 1);
}

#[test]
fn a_job_larger_than_its_quota_is_refused() {
    let scene = Scene::with_nodes("allowed", 2);
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "allowed"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "8"}}}));
    scene.get_until(&["resourcequota", "team"], |quota| {
        quota["status"]["hard"].is_object()
    });
    // Each pod alone fits the quota, but the two together never do.
    let two_pods = scene.training("two", "resources: {pool: POOL, gpu: 8, node_count: 2}");
    scene
        .gpuctl_with(&CREATE, &two_pods)
        .exits(1)
        .says("quota `team` allows at most 8 of requests.nvidia.com/gpu, but the job needs 16");
    nothing_is_written(&scene);
    scene.create("one", "resources: {pool: POOL, gpu: 6}");
    scene.until("one", "running", None);
    scene.get_until(&["resourcequota", "team"], |quota| {
        quota["status"]["used"]["requests.nvidia.com/gpu"] == "6"
    });
    let later = scene
        .gpuctl_with(
            &CREATE,
            &scene.training("later", "resources: {pool: POOL, gpu: 4}"),
        )
        .ok();
    let later =
        later.says("quota `team` has 2 of 8 requests.nvidia.com/gpu left, but the job needs 4");
    assert!(!later.err.contains("probe"), "{}", later.err);
}

#[test]
fn checks_without_rights_only_warn() {
    let scene = Scene::with_nodes("blindly", 1);
    scene.admin.run(&[
        "create",
        "role",
        "maker",
        "--verb=create,get,list,patch",
        "--resource=jobs.batch,services",
        "-n",
        "blindly",
    ]);
    scene.admin.run(&[
        "create",
        "rolebinding",
        "maker",
        "--role=maker",
        "--user=frank",
        "-n",
        "blindly",
    ]);
    let frank = scene.seen_by(Persona::Frank);
    let job = "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: 'busybox:1'}\nresources: {gpu: 64}\nstorage: {workdirs: [{path: /m, pvc: models}]}\n";
    frank
        .gpuctl_with(&CREATE, job)
        .ok()
        .says("could not check whether claim `models` exists: you are not allowed to read persistentvolumeclaims")
        .says("the namespace quotas were not checked");
}
