//! Tests workloads with GPUs, grouped by top owner, including custom kinds. The definitions and
//! objects are on a real API server, and only owner references connect them to pods.

use std::os::unix::fs::PermissionsExt;

use gpuctl_sandbox::{Kubectl, Persona};
use serde_json::{Value, json};

use crate::past::{Sample, ask, store, unix_now};
use crate::support::{GPU, Scene, cluster};

/// A custom resource definition that accepts any fields.
pub fn definition(group: &str, version: &str, kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    })
}

const KINDS: [(&str, &str, &str); 9] = [
    ("kubeflow.org", "v1", "PyTorchJob"),
    ("ray.io", "v1", "RayJob"),
    ("ray.io", "v1", "RayCluster"),
    ("jobset.x-k8s.io", "v1alpha2", "JobSet"),
    ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet"),
    ("batch.volcano.sh", "v1alpha1", "Job"),
    ("serving.kserve.io", "v1beta1", "InferenceService"),
    ("serving.knative.dev", "v1", "Service"),
    ("argoproj.io", "v1alpha1", "Workflow"),
];

/// Creates an object, optionally with an owner. Returns an owner reference to it.
fn make(
    admin: &Kubectl,
    api: &str,
    kind: &str,
    name: &str,
    owner: Option<&Value>,
    rest: Value,
) -> Value {
    let mut object =
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "owned"}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    if let Some(owner) = owner {
        object["metadata"]["ownerReferences"] = json!([owner]);
    }
    admin.apply(&object);
    let group = api
        .split_once('/')
        .map_or(String::new(), |(group, _)| format!(".{group}"));
    let created = admin.json(&[
        "get",
        &format!("{}s{group}", kind.to_lowercase()),
        name,
        "-n",
        "owned",
    ]);
    json!({"apiVersion": api, "kind": kind, "name": name, "uid": created["metadata"]["uid"], "controller": true})
}

fn pod(gpus: u32) -> Value {
    json!({"spec": spec(json!({"limits": {GPU: gpus.to_string()}}))})
}

/// The spec of a pod for the nodes of this test.
fn spec(resources: Value) -> Value {
    json!({"nodeSelector": {"gpuctl/pool": "owned"}, "containers": [{"name": "main", "image": "busybox", "resources": resources}]})
}

#[test]
fn workloads_are_listed_by_their_top_owner() {
    let scene = Scene::new("owned", 2);
    let admin = scene.cluster.kubectl(Persona::Admin);
    let definitions: Vec<Value> = KINDS
        .iter()
        .map(|(group, version, kind)| definition(group, version, kind))
        .collect();
    admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": definitions}));
    admin.run(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd",
        "--all",
    ]);
    let none = json!({});
    let make = |api: &str, kind: &str, name: &str, owner: Option<&Value>, rest: Value| {
        make(&admin, api, kind, name, owner, rest)
    };

    let torch = make("kubeflow.org/v1", "PyTorchJob", "sft", None, none.clone());
    make("v1", "Pod", "sft-worker-0", Some(&torch), pod(2));
    let ray = make("ray.io/v1", "RayJob", "tune", None, none.clone());
    let ray_cluster = make(
        "ray.io/v1",
        "RayCluster",
        "tune-x",
        Some(&ray),
        none.clone(),
    );
    make("v1", "Pod", "tune-x-worker", Some(&ray_cluster), pod(1));
    let set = make(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "set",
        None,
        none.clone(),
    );
    let mut template = pod(1);
    template["spec"]["restartPolicy"] = json!("Never");
    make(
        "batch/v1",
        "Job",
        "set-workers-0",
        Some(&set),
        json!({"spec": {"template": template}}),
    );
    let leader = make(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "llama",
        None,
        none.clone(),
    );
    let labels = json!({"app": "llama"});
    let mut served = pod(1);
    served["metadata"] = json!({"labels": labels});
    make(
        "apps/v1",
        "StatefulSet",
        "llama-0",
        Some(&leader),
        json!({"spec": {"serviceName": "llama", "selector": {"matchLabels": labels}, "template": served}}),
    );
    let volcano = make(
        "batch.volcano.sh/v1alpha1",
        "Job",
        "volcano",
        None,
        none.clone(),
    );
    make("v1", "Pod", "volcano-task-0", Some(&volcano), pod(1));
    let kserve = make(
        "serving.kserve.io/v1beta1",
        "InferenceService",
        "bert",
        None,
        none.clone(),
    );
    let knative = make(
        "serving.knative.dev/v1",
        "Service",
        "bert-predictor",
        Some(&kserve),
        none.clone(),
    );
    make("v1", "Pod", "bert-predictor-x", Some(&knative), pod(1));
    let argo = make(
        "argoproj.io/v1alpha1",
        "Workflow",
        "nightly",
        None,
        none.clone(),
    );
    make("v1", "Pod", "nightly-step", Some(&argo), pod(1));
    // A pod without an owner.
    make("v1", "Pod", "orphan", None, pod(1));
    // Scaled to zero: listed by its template.
    make(
        "apps/v1",
        "Deployment",
        "asleep",
        None,
        json!({"spec": {"replicas": 0, "selector": {"matchLabels": {"app": "asleep"}},
        "template": {"metadata": {"labels": {"app": "asleep"}}, "spec": {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": {GPU: "4"}}}]}}}}),
    );
    // A pod without GPUs is not listed.
    make(
        "v1",
        "Pod",
        "plain",
        None,
        json!({"spec": {"containers": [{"name": "main", "image": "busybox"}]}}),
    );

    let running = |list: &Value| {
        let items = list["data"].as_array().unwrap();
        items
            .iter()
            .filter(|row| row["status"] == "Running")
            .count()
            == 8
    };
    let list = scene.until(&["get", "workloads"], running);
    let mut actual: Vec<(String, String, u64)> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["kind"].as_str().unwrap().to_owned(),
                row["name"].as_str().unwrap().to_owned(),
                row["gpuAllocated"].as_u64().unwrap(),
            )
        })
        .collect();
    actual.sort();
    let mut expected: Vec<(String, String, u64)> = [
        ("Deployment", "asleep", 0),
        ("InferenceService", "bert", 1),
        ("Job", "volcano", 1),
        ("JobSet", "set", 1),
        ("LeaderWorkerSet", "llama", 1),
        ("Pod", "orphan", 1),
        ("PyTorchJob", "sft", 2),
        ("RayJob", "tune", 1),
        ("Workflow", "nightly", 1),
    ]
    .iter()
    .map(|(kind, name, gpus)| ((*kind).to_owned(), (*name).to_owned(), *gpus))
    .collect();
    expected.sort();
    assert_eq!(actual, expected);
    assert_eq!(list["total"], 9);
    let workload = |name: &str| {
        list["data"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == name)
            .unwrap()
    };
    assert_eq!(
        (
            &workload("asleep")["status"],
            &workload("asleep")["reason"],
            &workload("asleep")["statusColor"]
        ),
        (&json!("Pending"), &json!("ScaledToZero"), &json!("yellow"))
    );
    assert_eq!(
        workload("sft")["gpuAllocation"],
        json!({"NVIDIA-A100-SXM4-80GB": 2})
    );
    assert_eq!(
        (&workload("sft")["endAt"], &workload("sft")["source"]),
        (&json!(0), &json!("k8s"))
    );

    let tree = scene.json(&["tree", "RayJob/tune"]);
    assert_eq!(
        (
            &tree["kind"],
            &tree["children"][0]["kind"],
            &tree["children"][0]["children"][0]["name"]
        ),
        (
            &json!("RayJob"),
            &json!("RayCluster"),
            &json!("tune-x-worker")
        )
    );
    let tree = scene.json(&["tree", "owned/InferenceService/bert"]);
    assert_eq!(
        (
            &tree["children"][0]["kind"],
            &tree["children"][0]["children"][0]["kind"]
        ),
        (&json!("Service"), &json!("Pod"))
    );
    let uid = workload("set")["uid"].as_str().unwrap();
    let row = scene.json(&["describe", "workload", uid]);
    assert_eq!(
        (
            &row["kind"],
            &row["apiVersion"],
            &row["pods"].as_array().unwrap().len()
        ),
        (&json!("JobSet"), &json!("jobset.x-k8s.io/v1alpha2"), &1)
    );
    let metadata = scene.json(&["get", "workload-metadata"]);
    assert_eq!(metadata["namespaces"], json!(["owned"]));
    assert!(
        metadata["kinds"]
            .as_array()
            .unwrap()
            .contains(&json!("PyTorchJob"))
    );

    // Filters, order, pages.
    let names = |arguments: &[&str]| -> Vec<String> {
        let list = scene.json(arguments);
        list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(&["get", "workloads", "--kind", "pytorchjob"]),
        ["sft"]
    );
    assert_eq!(
        names(&["get", "workloads", "--status", "Pending"]),
        ["asleep"]
    );
    assert_eq!(names(&["get", "workloads", "--name", "ber"]), ["bert"]);
    let (first, second) = (
        names(&["get", "workloads", "--page", "1", "--page-size", "6"]),
        names(&["get", "workloads", "--page", "2", "--page-size", "6"]),
    );
    assert_eq!((first.len(), second.len()), (6, 3));
    assert!(first.iter().all(|name| !second.contains(name)));
    let starts = scene.json(&["get", "workloads", "--order-by", "start_at"])["data"].clone();
    let starts: Vec<(Option<i64>, &str)> = starts
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["startAt"].as_i64(), row["name"].as_str().unwrap()))
        .collect();
    assert!(starts.is_sorted_by(|a, b| a.0 >= b.0), "{starts:?}");
    // A waiting workload has no start, because none of its containers started.
    assert_eq!(
        starts
            .iter()
            .filter(|(at, _)| at.is_none())
            .map(|(_, name)| *name)
            .collect::<Vec<_>>(),
        ["asleep"]
    );
    let consumers = scene.json(&["get", "consumers"]);
    assert_eq!(
        (&consumers["data"][0]["name"], &consumers["total"]),
        (&json!("sft"), &json!(8)),
        "the largest first, without workloads that are scaled to zero"
    );
    scene
        .gpuctl(&["describe", "workload", "PyTorchJob/stf"])
        .exits(4)
        .says("did you mean `owned/PyTorchJob/sft`?");

    // Finished workloads stay in the list with their end.
    for (name, code, status, color) in [
        ("done", "0", "Completed", "green"),
        ("lost", "3", "Failed", "red"),
    ] {
        let mut ends = template.clone();
        ends["spec"]["containers"][0]["env"] =
            json!([{"name": "SIM_SECONDS", "value": "1"}, {"name": "SIM_EXIT", "value": code}]);
        make(
            "batch/v1",
            "Job",
            name,
            None,
            json!({"spec": {"backoffLimit": 0, "template": ends}}),
        );
        let finished = |job: &Value| {
            let conditions = job["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            conditions
                .into_iter()
                .find(|row| matches!(row["type"].as_str(), Some("Complete" | "Failed")))
        };
        let job = admin.until(&["get", "job", name, "-n", "owned"], |job| {
            finished(job).is_some()
        });
        let condition = finished(&job).unwrap();
        let list = scene.json(&["get", "workloads", "--name", name]);
        let row = &list["data"][0];
        assert_eq!(
            (&row["status"], &row["statusColor"], &row["gpuAllocated"]),
            (&json!(status), &json!(color), &json!(0))
        );
        let ended: jiff::Timestamp = condition["lastTransitionTime"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        assert!(
            (row["endAt"].as_i64().unwrap() - ended.as_second()).abs() <= 1,
            "{row:#} {condition:#}"
        );
    }

    // API kinds are cached for minutes in a private file. A kind that is added later is found
    // anyway.
    let cache_files: Vec<_> = std::fs::read_dir(scene.cluster.folder().join("cache/gpuctl/found"))
        .unwrap()
        .map(|row| row.unwrap().path())
        .collect();
    let kinds = cache_files
        .iter()
        .find(|path| {
            std::fs::read_to_string(path)
                .unwrap()
                .contains("\"rayclusters\"")
        })
        .expect("API kinds are cached");
    assert_eq!(
        kinds.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    admin.apply(&definition("ray.io", "v1", "RayService"));
    admin.run(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd/rayservices.ray.io",
    ]);
    let late = make("kubeflow.org/v1", "PyTorchJob", "late", None, none.clone());
    let service = make(
        "ray.io/v1",
        "RayService",
        "late-x",
        Some(&late),
        none.clone(),
    );
    let ray_cluster = make("ray.io/v1", "RayCluster", "late-x-y", Some(&service), none);
    make("v1", "Pod", "late-x-y-worker", Some(&ray_cluster), pod(1));
    scene.until(&["get", "workloads", "--name", "late"], |list| {
        list["data"][0]["kind"] == "PyTorchJob" && list["total"] == 1
    });
}

#[test]
fn curves_of_a_workload_include_replaced_pods() {
    let admin = cluster().kubectl(Persona::Admin);
    admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "former"}}));
    admin.apply(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "moved", "namespace": "former"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "busybox", "resources": {"limits": {GPU: "1"}}}]}}}}));
    admin.until(&["get", "pods", "-n", "former"], |list| {
        list["items"].as_array().is_some_and(|pods| pods.len() == 1)
    });
    // A deleted pod of the Job, and a pod of another Job.
    let (begin, mut samples) = (unix_now() - 1800, Vec::new());
    for at in (0..1500).step_by(30) {
        for (pod, owner, value) in [("moved-gone", "moved", 80.0), ("other-x", "other", 5.0)] {
            let id = format!("namespace=\"former\",pod=\"{pod}\"");
            let mut put = |series: String, value: f64| {
                samples.push(Sample {
                    series,
                    at,
                    value: value.to_string(),
                });
            };
            put(
                format!("kube_pod_owner{{{id},owner_kind=\"Job\",owner_name=\"{owner}\"}}"),
                1.0,
            );
            put(
                format!(
                    "DCGM_FI_DEV_GPU_UTIL{{Hostname=\"gone-0\",gpu=\"0\",UUID=\"GPU-{pod}\",{id}}}"
                ),
                value,
            );
        }
    }
    let store = store("former", samples, begin);
    let cache = cluster().folder().join("former-cache");
    let curves = ask(
        &store,
        &cache,
        &[
            "-n",
            "former",
            "get",
            "metrics",
            "workload",
            "Job/moved",
            "-o",
            "json",
        ],
    )
    .ok()
    .json();
    let points = curves["GPU Utilization"]["series"][0]["points"]
        .as_array()
        .unwrap()
        .clone();
    assert!(points.len() > 20, "{curves:#}");
    assert!(
        points.iter().all(|point| point[0] == json!(0.8)),
        "{curves:#}"
    );
}
