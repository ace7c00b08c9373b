//! The objects of every example, as they are sent; and every field that is sent, with the version that brought it.
#![expect(clippy::disallowed_methods, reason = "this test reads committed files")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gpuctl::model::{Node, Nodes};
use gpuctl::render::{IngressClass, Object, Queueing, Served, Target, render};
use gpuctl::spec::{self, Document};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};

fn nodes() -> Vec<Node> {
    let node = |name: &str, pool: &str, product: &str| Node {
        name: name.to_owned(),
        labels: [("gpuctl/pool".to_owned(), pool.to_owned()), ("nvidia.com/gpu.product".to_owned(), product.to_owned())].into(),
        allocatable: [("nvidia.com/gpu".to_owned(), "8".to_owned())].into(),
        schedulable: true,
        ..Node::default()
    };
    vec![
        node("a", "training-pool", "NVIDIA-A100-SXM4-80GB"),
        node("b", "training-pool", "NVIDIA-A100-SXM4-80GB"),
        node("h", "big-pool", "NVIDIA-H100-80GB-HBM3"),
        node("i", "big-pool", "NVIDIA-H100-80GB-HBM3"),
        node("v", "inference-pool", "NVIDIA-A10"),
        node("w", "dev-pool", "NVIDIA-A10"),
    ]
}

fn target(files: usize) -> Target {
    Target {
        namespace: "team-a".to_owned(),
        nodes: Nodes::Listed(nodes()),
        user: Some("alice".to_owned()),
        files: vec![b"content\n".to_vec(); files],
        ..Target::default()
    }
}

fn objects(text: &str, target: impl Fn(usize) -> Target) -> Vec<Object> {
    let documents = spec::parse("t", text).unwrap_or_else(|problems| panic!("{:#?}", problems.list)).documents;
    documents
        .iter()
        .flat_map(|document| {
            let files = if let Document::Job(job) = document { job.files.len() } else { 0 };
            render(document, &target(files)).unwrap_or_else(|refusal| panic!("{refusal}")).objects
        })
        .collect()
}

/// The examples that are jobs; pools and quotas become objects with the nodes that there are.
fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    let is_job = |path: &PathBuf| !matches!(path.file_stem().and_then(|stem| stem.to_str()), Some("pool" | "quota"));
    files.retain(is_job);
    files.sort();
    files
}

fn yaml(objects: &[Object]) -> String {
    objects.iter().map(|object| gpuctl::view::yaml(&object.body)).collect::<Vec<_>>().join("---\n")
}

#[test]
fn examples_become_these_objects() {
    for path in examples() {
        let text = fs::read_to_string(&path).unwrap();
        insta::assert_snapshot!(path.file_stem().unwrap().to_str().unwrap(), yaml(&objects(&text, target)));
    }
}

#[test]
fn rendering_twice_gives_the_same_bytes_whatever_the_order_of_nodes() {
    for path in examples() {
        let text = fs::read_to_string(&path).unwrap();
        let reversed = |files| Target { nodes: Nodes::Listed(nodes().into_iter().rev().collect()), ..target(files) };
        assert_eq!(yaml(&objects(&text, target)), yaml(&objects(&text, reversed)));
    }
}

/// Uses every field of every kind of job.
const EVERYTHING: &str = "kind: training
version: v0.1
job: {name: all, description: d, priority: high, labels: {team: a}, annotations: {x: y}, queue: q, epochs: 1, batch_size: 2, retries: 1, max_runtime: 1h, gang_timeout: 1h, grace_period: 1m, keep_for: 1d}
environment:
  image: i
  imagePullSecret: s
  imagePullPolicy: Always
  command: [python, -m, train]
  args: [--x]
  workingDir: /w
  env: [{name: A, value: b}, {name: B, secret: s, key: k}, {name: C, configmap: c, key: k}]
model: {source: s, name: n, version: v, format: f, cache: true, path: /m}
resources: {pool: training-pool, gpu: 1, gpu-type: a100, cpu: 1, memory: 1Gi, shm: 1Gi, node_count: 2}
storage:
  workdirs:
    - /data/x.json
    - {path: /ro, read_only: true}
    - {path: /pvc, pvc: p, sub_path: s, read_only: true}
    - {path: /size, size: 1Gi, storageClass: c}
    - {path: /empty, emptyDir: true}
    - {path: /map, configmap: c}
    - {path: /secret, secret: s}
files: [a.txt]
---
kind: training
version: v0.1
job: {name: none}
environment: {image: i}
resources: {gpu: 0}
---
kind: inference
version: v0.1
job: {name: serve, grace_period: 1m, queue: q}
environment: {image: i}
resources: {gpu: 1, cpu: 1}
service: {replicas: 2, port: 80, targetPort: 8000, protocol: TCP, type: NodePort, host: h.example.com, health_check: {path: /h, port: 9, initial_delay: 5s, period: 5s}, timeout: 1m, request_limit: 5}
autoscaling: {minReplicas: 1, maxReplicas: 3, targetGPUUtilization: 70, targetMemoryUtilization: 80, targetCPUUtilization: 60, scaleUpDelay: 1m, scaleDownDelay: 5m}
---
kind: compute
version: v0.1
job: {name: web}
environment: {image: i}
service: {port: 80}
---
kind: notebook
version: v0.1
job: {name: lab}
environment: {image: i}
service: {port: 80, health_check: /api}
";

fn everything() -> Vec<Object> {
    let classes = vec![IngressClass { name: "nginx".to_owned(), default: false }];
    let served = Some(Served { ingress_classes: Some(classes), ..Served::default() });
    objects(EVERYTHING, |files| Target { queueing: Some(Queueing::Volcano), served: served.clone(), ..target(files) })
}

/// Every path of a value; keys that are data stand as `*`.
fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    const DATA: [&str; 8] = ["labels", "annotations", "selector", "data", "binaryData", "limits", "requests", "nodeSelector"];
    match value {
        Value::Object(fields) => {
            let data = DATA.iter().any(|name| path.ends_with(&format!(".{name}")));
            for (key, value) in fields {
                paths(value, &format!("{path}.{}", if data { "*" } else { key }), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{path}[]"), found)),
        _ => {
            found.insert(path.to_owned());
        }
    }
}

/// Fields younger than Kubernetes 1.20, with the version in which servers have them on by default.
/// Source: the feature gates page of the Kubernetes documentation.
const SINCE: [(&str, &str); 9] = [
    ("HorizontalPodAutoscaler.", "1.23"),
    ("Ingress.", "1.19"),
    ("Job.spec.backoffLimitPerIndex", "1.29"),
    ("Job.spec.maxFailedIndexes", "1.29"),
    ("Job.spec.completionMode", "1.22"),
    ("Job.spec.podFailurePolicy", "1.26"),
    ("Job.spec.podReplacementPolicy", "1.29"),
    ("Job.spec.ttlSecondsAfterFinished", "1.21"),
    ("PriorityClass.preemptionPolicy", "1.19"),
];

#[test]
fn every_field_that_is_sent_is_known_to_kubernetes_1_31() {
    let mut found = BTreeSet::new();
    for object in everything() {
        paths(&object.body, object.kind(), &mut found);
    }
    let since =
        |path: &str| SINCE.iter().find(|(prefix, _)| path.starts_with(prefix)).map_or("before 1.20", |(_, version)| version);
    let list: String = found.iter().map(|path| format!("{path}  {}\n", since(path))).collect();
    insta::assert_snapshot!("fields", list);
    for (_, version) in SINCE {
        let minor: u32 = version.trim_start_matches("1.").parse().unwrap();
        assert!(minor <= 31, "{version}");
    }
}

/// The object, read into the type of the oldest API and written again: a field that it does not know is lost on the way.
fn through<T: serde::de::DeserializeOwned + serde::Serialize>(body: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(body.clone()).unwrap()).unwrap()
}

#[test]
fn no_field_is_invented() {
    for object in everything() {
        let typed = match object.kind() {
            "Job" => through::<Job>(&object.body),
            "Service" => through::<Service>(&object.body),
            "ConfigMap" => through::<ConfigMap>(&object.body),
            "PersistentVolumeClaim" => through::<PersistentVolumeClaim>(&object.body),
            "PriorityClass" => through::<PriorityClass>(&object.body),
            "Deployment" => through::<Deployment>(&object.body),
            "StatefulSet" => through::<StatefulSet>(&object.body),
            "HorizontalPodAutoscaler" => through::<HorizontalPodAutoscaler>(&object.body),
            "Ingress" => through::<Ingress>(&object.body),
            other => panic!("{other} is a new kind"),
        };
        assert_eq!(typed, object.body);
    }
    let document = spec::parse("t", EVERYTHING).unwrap().documents.remove(0);
    let probe = render(&document, &Target { queueing: Some(Queueing::Volcano), ..target(1) }).unwrap().probe;
    assert_eq!(through::<Pod>(&probe.body), probe.body);
}

#[test]
fn published_nodes_place_a_job_and_refuse_none() {
    let render_in = |pool: &str| {
        let text = format!(
            "kind: training\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: i}}\nresources: {{pool: {pool}, gpu: 1}}"
        );
        let document = spec::parse("t", &text).unwrap().documents.remove(0);
        render(&document, &Target { nodes: Nodes::Published(nodes()), ..target(0) }).unwrap()
    };
    let pool = nodes().iter().find_map(|node| node.pool().filter(|_| node.has_gpus()).map(ToOwned::to_owned)).unwrap();
    assert!(render_in(&pool).warnings.is_empty());
    let warnings = render_in("younger-than-the-list").warnings;
    assert_eq!(
        warnings[0],
        "there is no pool `younger-than-the-list` in the list of nodes that was published, which may be old; you may not list nodes"
    );
}

#[test]
fn a_user_who_may_not_see_nodes_gets_the_known_spellings() {
    let text =
        "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: i}\nresources: {pool: p, gpu: 2, gpu-type: A10-24G}";
    let job = objects(text, |files| Target { nodes: Nodes::Hidden, ..target(files) }).pop().unwrap();
    let spec = &job.body["spec"]["template"]["spec"];
    let terms = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let pool = json!({"key": "gpuctl/pool", "operator": "In", "values": ["p"]});
    assert_eq!(
        terms,
        &json!([
            {"matchExpressions": [pool, {"key": "nvidia.com/gpu-type", "operator": "In", "values": ["A10-24G", "a10-24g"]}]},
            {"matchExpressions": [pool, {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-A10"]}]},
        ])
    );
    assert_eq!(spec["containers"][0]["resources"]["limits"], json!({"nvidia.com/gpu": "2"}));
}
