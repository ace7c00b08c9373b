//! Everything that requests GPUs by the owner at the top of its chain, custom kinds included:
//! definitions and objects are on the real server, and nothing but their references leads from a
//! pod to them.

use std::os::unix::fs::PermissionsExt;

use gpuctl_sandbox::{Kubectl, Persona};
use serde_json::{Value, json};

use crate::past::{Sample, ask, store, unix_now};
use crate::support::{GPU, Scene, cluster};

/// A definition that takes any fields.
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

/// Makes an object below another. Returns a reference to it.
fn make(
    admin: &Kubectl,
    api: &str,
    kind: &str,
    name: &str,
    above: Option<&Value>,
    rest: Value,
) -> Value {
    let mut object =
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "owned"}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    if let Some(above) = above {
        object["metadata"]["ownerReferences"] = json!([above]);
    }
    admin.apply(&object);
    let group = api
        .split_once('/')
        .map_or(String::new(), |(group, _)| format!(".{group}"));
    let found = admin.json(&[
        "get",
        &format!("{}s{group}", kind.to_lowercase()),
        name,
        "-n",
        "owned",
    ]);
    json!({"apiVersion": api, "kind": kind, "name": name, "uid": found["metadata"]["uid"], "controller": true})
}

fn pod(gpus: u32) -> Value {
    json!({"spec": spec(json!({"limits": {GPU: gpus.to_string()}}))})
}

/// A pod on this test's own nodes.
fn spec(resources: Value) -> Value {
    json!({"nodeSelector": {"gpuctl/pool": "owned"}, "containers": [{"name": "main", "image": "busybox", "resources": resources}]})
}

#[test]
fn the_top_of_every_chain() {
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
    let make = |api: &str, kind: &str, name: &str, above: Option<&Value>, rest: Value| {
        make(&admin, api, kind, name, above, rest)
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
    // Nobody owns it.
    make("v1", "Pod", "orphan", None, pod(1));
    // No pods: by its template, and at rest.
    make(
        "apps/v1",
        "Deployment",
        "asleep",
        None,
        json!({"spec": {"replicas": 0, "selector": {"matchLabels": {"app": "asleep"}},
        "template": {"metadata": {"labels": {"app": "asleep"}}, "spec": {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": {GPU: "4"}}}]}}}}),
    );
    // Without GPUs it is nobody's business here.
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
            .filter(|one| one["status"] == "Running")
            .count()
            == 8
    };
    let list = scene.until(&["get", "workloads"], running);
    let mut told: Vec<(String, String, u64)> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["kind"].as_str().unwrap().to_owned(),
                one["name"].as_str().unwrap().to_owned(),
                one["gpuAllocated"].as_u64().unwrap(),
            )
        })
        .collect();
    told.sort();
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
    assert_eq!(told, expected);
    assert_eq!(list["total"], 9);
    let of = |name: &str| {
        list["data"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == name)
            .unwrap()
    };
    assert_eq!(
        (
            &of("asleep")["status"],
            &of("asleep")["reason"],
            &of("asleep")["statusColor"]
        ),
        (&json!("Pending"), &json!("ScaledToZero"), &json!("yellow"))
    );
    assert_eq!(
        of("sft")["gpuAllocation"],
        json!({"NVIDIA-A100-SXM4-80GB": 2})
    );
    assert_eq!(
        (&of("sft")["endAt"], &of("sft")["source"]),
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
    let uid = of("set")["uid"].as_str().unwrap();
    let one = scene.json(&["describe", "workload", uid]);
    assert_eq!(
        (
            &one["kind"],
            &one["apiVersion"],
            &one["pods"].as_array().unwrap().len()
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
            .map(|one| one["name"].as_str().unwrap().to_owned())
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
        .map(|one| (one["startAt"].as_i64(), one["name"].as_str().unwrap()))
        .collect();
    assert!(starts.is_sorted_by(|a, b| a.0 >= b.0), "{starts:?}");
    // The object of one that waits says that it started; none of its containers has.
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
        "the biggest first, who rests not at all"
    );
    scene
        .gpuctl(&["describe", "workload", "PyTorchJob/stf"])
        .exits(4)
        .says("did you mean `owned/PyTorchJob/sft`?");

    // What ended stays, with its end.
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
                .find(|one| matches!(one["type"].as_str(), Some("Complete" | "Failed")))
        };
        let job = admin.until(&["get", "job", name, "-n", "owned"], |job| {
            finished(job).is_some()
        });
        let over = finished(&job).unwrap();
        let list = scene.json(&["get", "workloads", "--name", name]);
        let one = &list["data"][0];
        assert_eq!(
            (&one["status"], &one["statusColor"], &one["gpuAllocated"]),
            (&json!(status), &json!(color), &json!(0))
        );
        let ended: jiff::Timestamp = over["lastTransitionTime"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        assert!(
            (one["endAt"].as_i64().unwrap() - ended.as_second()).abs() <= 1,
            "{one:#} {over:#}"
        );
    }

    // The kinds of a version are kept for minutes, for this user alone; one that came later is
    // found all the same.
    let kept: Vec<_> = std::fs::read_dir(scene.cluster.folder().join("cache/gpuctl/found"))
        .unwrap()
        .map(|one| one.unwrap().path())
        .collect();
    let kinds = kept
        .iter()
        .find(|path| {
            std::fs::read_to_string(path)
                .unwrap()
                .contains("\"rayclusters\"")
        })
        .expect("kinds are kept");
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
fn curves_of_a_workload_have_the_pods_that_were_replaced() {
    let admin = cluster().kubectl(Persona::Admin);
    admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "former"}}));
    admin.apply(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "moved", "namespace": "former"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "busybox", "resources": {"limits": {GPU: "1"}}}]}}}}));
    admin.until(&["get", "pods", "-n", "former"], |list| {
        list["items"].as_array().is_some_and(|pods| pods.len() == 1)
    });
    // A pod of it that is gone, and one of another Job's.
    let (begin, mut written) = (unix_now() - 1800, Vec::new());
    for at in (0..1500).step_by(30) {
        for (pod, owner, value) in [("moved-gone", "moved", 80.0), ("other-x", "other", 5.0)] {
            let id = format!("namespace=\"former\",pod=\"{pod}\"");
            let mut put = |series: String, value: f64| {
                written.push(Sample {
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
    let store = store("former", written, begin);
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
