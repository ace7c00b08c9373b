//! Takes snapshots of the objects rendered for every example. Also lists every rendered field with
//! the Kubernetes version that introduced it.
#![expect(clippy::disallowed_methods, reason = "this test reads committed files")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gpuctl_core::model::{Gang, Node, Nodes, QueueSystem};
use gpuctl_manifest::render::{IngressClass, Object, Served, Target, render};
use gpuctl_manifest::spec::{self, Document};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};

fn nodes() -> Vec<Node> {
    let node = |name: &str, pool: &str, product: &str| Node {
        name: name.to_owned(),
        labels: [
            ("gpuctl/pool".to_owned(), pool.to_owned()),
            ("nvidia.com/gpu.product".to_owned(), product.to_owned()),
        ]
        .into(),
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
    let documents = spec::parse("t", text)
        .unwrap_or_else(|problems| panic!("{:#?}", problems.list))
        .documents;
    documents
        .iter()
        .flat_map(|document| {
            let files = if let Document::Job(job) = document {
                job.files.len()
            } else {
                0
            };
            render(document, &target(files))
                .unwrap_or_else(|refusal| panic!("{refusal}"))
                .objects
        })
        .collect()
}

/// Returns the examples that are jobs. Pools, quotas and defaults are rendered differently, because
/// they depend on existing nodes.
fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    let is_job = |path: &PathBuf| {
        !matches!(
            path.file_stem().and_then(|stem| stem.to_str()),
            Some("pool" | "quota" | "defaults")
        )
    };
    files.retain(is_job);
    files.sort();
    files
}

fn yaml(objects: &[Object]) -> String {
    let text = |object: &Object| {
        let mut body = object.body.clone();
        // The supervisor's program is left out, because it is a separate file in the repository.
        if let Some(program) = body.pointer_mut("/data/supervisor.py") {
            *program = json!("…");
        }
        // The hash is replaced, because it changes whenever the supervisor does.
        let hash = body
            .pointer("/metadata/annotations/gpuctl~1supervisor-sha256")
            .and_then(Value::as_str)
            .map(ToOwned::to_owned);
        let text = gpuctl_view::yaml(&body);
        hash.map_or_else(|| text.clone(), |hash| text.replace(&hash, "…"))
    };
    objects.iter().map(text).collect::<Vec<_>>().join("---\n")
}

#[test]
fn examples_render_to_the_expected_objects() {
    for path in examples() {
        let text = fs::read_to_string(&path).unwrap();
        insta::assert_snapshot!(
            path.file_stem().unwrap().to_str().unwrap(),
            yaml(&objects(&text, target))
        );
    }
}

/// Renders the same file for clusters with different queue systems and gang schedulers.
#[test]
fn a_training_renders_for_every_queue_system_and_gang_scheduler() {
    let text = |queue: &str| {
        format!(
            "kind: training\nversion: v0.1\njob: {{name: two{queue}}}\nenvironment: {{image: i, command: [train]}}\n\
             resources: {{gpu: 8, node_count: 2}}\n"
        )
    };
    let native = Gang::Native("scheduling.k8s.io/v1alpha2".to_owned());
    for (name, queue, queueing, gang) in [
        ("gang-native", "", None, Some(native)),
        ("gang-volcano", "", None, Some(Gang::Volcano)),
        (
            "queue-volcano",
            ", queue: research",
            Some(QueueSystem::Volcano),
            Some(Gang::Volcano),
        ),
        (
            "queue-kueue",
            ", queue: research",
            Some(QueueSystem::Kueue),
            Some(Gang::Kueue),
        ),
    ] {
        let objects_of_target = objects(&text(queue), |files| Target {
            queueing,
            gang: gang.clone(),
            ..target(files)
        });
        insta::assert_snapshot!(name, yaml(&objects_of_target));
    }
}

#[test]
fn an_inference_on_two_nodes_needs_leader_worker_sets() {
    let text = "kind: inference\nversion: v0.1\njob: {name: big}\nenvironment: {image: i, command: vllm serve m -tp 16}\n\
                resources: {gpu: 8, node_count: 2}\nservice: {port: 8000, replicas: 2, health_check: /health}\n";
    let served = |leader_worker_sets| {
        Some(Served {
            leader_worker_sets,
            ..Served::default()
        })
    };
    let rendered = objects(text, |files| Target {
        served: served(true),
        ..target(files)
    });
    insta::assert_snapshot!("inference-on-two-nodes", yaml(&rendered));
    let document = spec::parse("t", text).unwrap().documents.remove(0);
    let refused = render(
        &document,
        &Target {
            served: served(false),
            ..target(0)
        },
    )
    .unwrap_err();
    assert_eq!(refused.name, "LeaderWorkerSetNotServed");
}

/// Two jobs use the host network of the same node, so their ports must differ.
#[test]
fn rdma_jobs_get_devices_locked_memory_and_distinct_ports() {
    let text = |name: &str, more: &str| {
        format!(
            "kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: i, command: [train]}}\n\
             resources: {{gpu: 4, node_count: 2, rdma: auto, pool: big-pool}}\npod: {{hostNetwork: true}}\n{more}"
        )
    };
    let with_devices = |files| {
        let mut nodes = nodes();
        nodes.iter_mut().for_each(|node| {
            drop(
                node.allocatable
                    .insert("rdma/rail".to_owned(), "8".to_owned()),
            );
        });
        Target {
            nodes: Nodes::Listed(nodes),
            ..target(files)
        }
    };
    let pod = |name: &str, more: &str| {
        let objects = objects(&text(name, more), with_devices);
        objects.last().unwrap().body["spec"]["template"]["spec"].clone()
    };
    let (first, second, restricted) = (
        pod("one", ""),
        pod("other", ""),
        pod("one", "security: restricted\n"),
    );
    assert_eq!(
        first["containers"][0]["resources"]["limits"],
        json!({"nvidia.com/gpu": "4", "rdma/rail": "4"})
    );
    assert_eq!(
        first["containers"][0]["securityContext"]["capabilities"],
        json!({"add": ["IPC_LOCK"]})
    );
    assert_eq!(
        restricted["containers"][0]["securityContext"]["capabilities"],
        json!({"drop": ["ALL"]})
    );
    assert_eq!(first["dnsPolicy"], "ClusterFirstWithHostNet");
    let port = |pod: &Value| {
        let variables = pod["containers"][0]["env"].as_array().unwrap();
        variables
            .iter()
            .find(|variable| variable["name"] == "MASTER_PORT")
            .unwrap()["value"]
            .as_str()
            .unwrap()
            .parse::<u16>()
            .unwrap()
    };
    let words = |pod: &Value| pod["containers"][0]["command"].to_string();
    assert!(port(&first).abs_diff(port(&second)) > 1 && (20_000..29_000).contains(&port(&first)));
    assert!(
        words(&first).contains(&format!("\"--port\",\"{}\"", port(&first) + 1)),
        "{}",
        words(&first)
    );
}

#[test]
fn rendering_does_not_depend_on_the_order_of_nodes() {
    for path in examples() {
        let text = fs::read_to_string(&path).unwrap();
        let reversed = |files| Target {
            nodes: Nodes::Listed(nodes().into_iter().rev().collect()),
            ..target(files)
        };
        assert_eq!(
            yaml(&objects(&text, target)),
            yaml(&objects(&text, reversed))
        );
    }
}

/// A file that uses every field of every kind of job.
const EVERYTHING: &str = "kind: training
version: v0.1
job: {name: all, description: d, priority: high, labels: {team: a}, annotations: {x: y}, queue: q, epochs: 1, batch_size: 2, retries: 1, max_runtime: 1h, gang_timeout: 1h, hang_timeout: 1h, restart: all, grace_period: 1m, keep_for: 1d}
environment:
  image: i
  imagePullSecret: s
  imagePullPolicy: Always
  command: [python, -m, train]
  args: [--x]
  workingDir: /w
  env: [{name: A, value: b}, {name: B, secret: s, key: k}, {name: C, configmap: c, key: k}]
model: {source: s, name: n, version: v, format: f, cache: true, path: /m}
resources: {pool: training-pool, gpu: 1, gpu-type: a100, cpu: 1, memory: 1Gi, shm: 1Gi, node_count: 2, exclude_nodes: [gpu-a-07], rdma: 'rdma/hca:1'}
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
checkpoint: {path: /out, resume: [--resume, $CHECKPOINT_LATEST]}
---
kind: training
version: v0.1
job: {name: none, max_runtime: 1h}
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
    let classes = vec![IngressClass {
        name: "nginx".to_owned(),
        default: false,
    }];
    let served = Some(Served {
        ingress_classes: Some(classes),
        ..Served::default()
    });
    objects(EVERYTHING, |files| Target {
        queueing: Some(QueueSystem::Volcano),
        served: served.clone(),
        ..target(files)
    })
}

/// Collects the path of every field in a value, with `*` in place of keys that are data.
fn paths(value: &Value, path: &str, collected: &mut BTreeSet<String>) {
    const DATA: [&str; 8] = [
        "labels",
        "annotations",
        "selector",
        "data",
        "binaryData",
        "limits",
        "requests",
        "nodeSelector",
    ];
    match value {
        Value::Object(fields) => {
            let data = DATA.iter().any(|name| path.ends_with(&format!(".{name}")));
            for (key, value) in fields {
                paths(
                    value,
                    &format!("{path}.{}", if data { "*" } else { key }),
                    collected,
                );
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| paths(item, &format!("{path}[]"), collected)),
        _ => {
            collected.insert(path.to_owned());
        }
    }
}

/// Newer fields, each with the Kubernetes version that enables it by default. All other fields are
/// older than 1.20. Source: the feature gates page of the Kubernetes documentation.
const SINCE: [(&str, &str); 12] = [
    ("ConfigMap.immutable", "1.19"),
    ("NetworkPolicy.spec.ingress[].ports[].endPort", "1.22"),
    ("Secret.immutable", "1.19"),
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
fn kubernetes_1_31_has_every_rendered_field() {
    let mut fields = BTreeSet::new();
    for object in everything() {
        paths(&object.body, object.kind(), &mut fields);
    }
    let since = |path: &str| {
        SINCE
            .iter()
            .find(|(prefix, _)| path.starts_with(prefix))
            .map_or("before 1.20", |(_, version)| version)
    };
    let list: String = fields
        .iter()
        .map(|path| format!("{path}  {}\n", since(path)))
        .collect();
    insta::assert_snapshot!("fields", list);
    for (_, version) in SINCE {
        let minor: u32 = version.trim_start_matches("1.").parse().unwrap();
        assert!(minor <= 31, "{version}");
    }
}

/// Converts an object to its type in the oldest supported API and back, which drops unknown fields.
fn round_trip<T: serde::de::DeserializeOwned + serde::Serialize>(body: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(body.clone()).unwrap()).unwrap()
}

#[test]
fn every_rendered_field_exists_in_the_oldest_api() {
    for object in everything() {
        let typed = match object.kind() {
            "Job" => round_trip::<Job>(&object.body),
            "Service" => round_trip::<Service>(&object.body),
            "ConfigMap" => round_trip::<ConfigMap>(&object.body),
            "PersistentVolumeClaim" => round_trip::<PersistentVolumeClaim>(&object.body),
            "PriorityClass" => round_trip::<PriorityClass>(&object.body),
            "Deployment" => round_trip::<Deployment>(&object.body),
            "StatefulSet" => round_trip::<StatefulSet>(&object.body),
            "HorizontalPodAutoscaler" => round_trip::<HorizontalPodAutoscaler>(&object.body),
            "Ingress" => round_trip::<Ingress>(&object.body),
            "Secret" => round_trip::<Secret>(&object.body),
            "NetworkPolicy" => round_trip::<NetworkPolicy>(&object.body),
            other => panic!("{other} is a new kind"),
        };
        assert_eq!(typed, object.body);
    }
    let document = spec::parse("t", EVERYTHING).unwrap().documents.remove(0);
    let probe = render(
        &document,
        &Target {
            queueing: Some(QueueSystem::Volcano),
            ..target(1)
        },
    )
    .unwrap()
    .probe;
    assert_eq!(round_trip::<Pod>(&probe.body), probe.body);
}

#[test]
fn published_nodes_place_a_job_and_an_unknown_pool_only_warns() {
    let render_in = |pool: &str| {
        let text = format!(
            "kind: training\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: i}}\nresources: {{pool: {pool}, gpu: 1}}"
        );
        let document = spec::parse("t", &text).unwrap().documents.remove(0);
        render(
            &document,
            &Target {
                nodes: Nodes::Published(nodes()),
                ..target(0)
            },
        )
        .unwrap()
    };
    let pool = nodes()
        .iter()
        .find_map(|node| {
            node.pool()
                .filter(|_| node.has_gpus())
                .map(ToOwned::to_owned)
        })
        .unwrap();
    assert!(render_in(&pool).warnings.is_empty());
    let warnings = render_in("younger-than-the-list").warnings;
    assert_eq!(
        warnings[0],
        "there is no pool `younger-than-the-list` in the published node list, which may be outdated; you are not allowed to list nodes"
    );
}

#[test]
fn without_access_to_nodes_all_known_labels_of_a_gpu_type_match() {
    let text = "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: i}\nresources: {pool: p, gpu: 2, gpu-type: A10-24G}";
    let job = objects(text, |files| Target {
        nodes: Nodes::Hidden,
        ..target(files)
    })
    .pop()
    .unwrap();
    let spec = &job.body["spec"]["template"]["spec"];
    let terms = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"];
    let pool = json!({"key": "gpuctl/pool", "operator": "In", "values": ["p"]});
    let counts: Vec<String> = (2..=10).map(|count: u32| count.to_string()).collect();
    let no_replicas =
        json!({"key": "nvidia.com/gpu.replicas", "operator": "NotIn", "values": counts});
    assert_eq!(
        terms,
        &json!([
            {"matchExpressions": [pool, no_replicas, {"key": "nvidia.com/gpu-type", "operator": "In", "values": ["A10-24G", "a10-24g"]}]},
            {"matchExpressions": [pool, no_replicas, {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-A10"]}]},
        ])
    );
    assert_eq!(
        spec["containers"][0]["resources"]["limits"],
        json!({"nvidia.com/gpu": "2"})
    );
}

/// A node's name, labels and allocatable resources.
type NodeLine<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)]);

/// Renders a document on the given nodes. Returns the pod spec and the warnings.
fn pod_on(nodes: &[NodeLine], more: &str) -> Result<(Value, Vec<String>), String> {
    let strings = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let node = |(name, labels, allocatable): &NodeLine| Node {
        name: (*name).to_owned(),
        labels: strings(labels),
        allocatable: strings(allocatable),
        schedulable: true,
        ..Node::default()
    };
    let nodes = Nodes::Listed(nodes.iter().map(node).collect());
    let text = format!(
        "kind: training\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: i}}\n{more}\n"
    );
    let document = spec::parse("t", &text)
        .unwrap_or_else(|problems| panic!("{:#?}", problems.list))
        .documents
        .remove(0);
    let rendered = render(&document, &Target { nodes, ..target(0) })
        .map_err(|refusal| format!("{refusal}; {}", refusal.hints.join("; ")))?;
    let spec = rendered.objects.last().unwrap().body["spec"]["template"]["spec"].clone();
    Ok((spec, rendered.warnings))
}

const A100: (&str, &str) = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
const EIGHT: &[(&str, &str)] = &[("nvidia.com/gpu", "8")];

#[test]
fn jobs_with_whole_gpus_avoid_shared_and_sliced_gpus() {
    let shared = [
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB-SHARED"),
        ("nvidia.com/gpu.replicas", "12"),
    ];
    let sliced = [(
        "nvidia.com/gpu.product",
        "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
    )];
    let mixed: &[(&str, &str)] = &[("nvidia.com/gpu", "4"), ("nvidia.com/mig-1g.10gb", "28")];
    let (spec, _) = pod_on(
        &[
            ("w", &[A100], EIGHT),
            ("m", &[A100], mixed),
            ("s", &shared, EIGHT),
            ("g", &sliced, EIGHT),
        ],
        "resources: {gpu: 1}",
    )
    .unwrap();
    let terms = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"];
    let counts: Vec<String> = (2..=10)
        .chain([12])
        .map(|count: u32| count.to_string())
        .collect();
    assert_eq!(
        terms,
        &json!([{"matchExpressions": [
            {"key": "nvidia.com/gpu.replicas", "operator": "NotIn", "values": counts},
            {"key": "nvidia.com/gpu.product", "operator": "NotIn",
             "values": ["NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "NVIDIA-A100-SXM4-80GB-SHARED"]},
        ]}])
    );
    // If every GPU is shared or sliced, the error names the field that requests a share.
    let refused = pod_on(&[("s", &shared, EIGHT)], "resources: {gpu: 1}").unwrap_err();
    assert!(
        refused.contains("only partial GPUs") && refused.contains("gpu_share: 10Gi"),
        "{refused}"
    );
    let (spec, warnings) = pod_on(
        &[("w", &[A100], EIGHT), ("s", &shared, EIGHT)],
        "resources: {gpu_share: 10Gi}",
    )
    .unwrap();
    assert_eq!(
        spec["containers"][0]["resources"]["limits"],
        json!({"nvidia.com/gpu": "1"})
    );
    assert!(
        spec["affinity"]
            .to_string()
            .contains(r#"{"key":"nvidia.com/gpu.replicas","operator":"Gt","values":["1"]}"#),
        "{spec:#}"
    );
    assert_eq!(
        warnings[0],
        "a share on these nodes is one of 12 per GPU and has no reserved memory"
    );
}

#[test]
fn gpu_types_match_the_node_labels_of_clouds() {
    let gke = [
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
        ("cloud.google.com/gke-nodepool", "h100"),
    ];
    let (spec, _) = pod_on(&[("n", &gke, EIGHT)], "resources: {gpu: 1, gpu-type: h100}").unwrap();
    let keys: Vec<&str> = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|term| term["matchExpressions"][1]["key"].as_str().unwrap())
        .collect();
    assert_eq!(
        keys,
        [
            "nvidia.com/gpu.product",
            "cloud.google.com/gke-accelerator",
            "karpenter.k8s.aws/instance-gpu-name"
        ]
    );
}

#[test]
fn security_qos_and_caches_render_as_requested() {
    let nodes: &[NodeLine] = &[("n", &[A100], EIGHT)];
    let (spec, _) = pod_on(nodes, "resources: {gpu: 2}\nsecurity: restricted").unwrap();
    assert_eq!(
        spec["securityContext"],
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}})
    );
    assert_eq!(
        spec["containers"][0]["securityContext"],
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
    );
    assert_eq!(
        spec["volumes"],
        json!([{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "32Gi"}}])
    );

    // An existing claim belongs to someone, so the kubelet may change its group only if the file
    // sets `run_as`.
    let claim = "storage: {workdirs: [{pvc: data, path: /data}]}";
    let (spec, _) = pod_on(nodes, claim).unwrap();
    assert_eq!(spec["securityContext"], Value::Null);
    let (spec, _) = pod_on(nodes, &format!("{claim}\nsecurity: {{run_as: 1001}}")).unwrap();
    assert_eq!(
        spec["securityContext"],
        json!({"runAsUser": 1001, "fsGroup": 1001, "fsGroupChangePolicy": "OnRootMismatch"})
    );
    let (spec, _) = pod_on(
        nodes,
        &format!("{claim}\nsecurity: {{run_as: 1001, fs_group: 100}}"),
    )
    .unwrap();
    assert_eq!(spec["securityContext"]["fsGroup"], 100);

    let (spec, _) = pod_on(nodes, "resources: {cpu: 8, memory: 64Gi, qos: guaranteed}").unwrap();
    let resources = &spec["containers"][0]["resources"];
    assert_eq!(
        (&resources["requests"], &resources["limits"]),
        (
            &json!({"cpu": "8", "memory": "64Gi"}),
            &json!({"cpu": "8", "memory": "64Gi"})
        )
    );

    let (spec, _) = pod_on(nodes, "model: {name: m, cache: true}\nresources: {gpu: 1}").unwrap();
    let variable = |name: &str| {
        spec["containers"][0]["env"]
            .as_array()
            .unwrap()
            .iter()
            .find(|variable| variable["name"] == name)
            .cloned()
    };
    assert_eq!(
        variable("HF_HOME").unwrap()["value"],
        "/cache/models/huggingface"
    );
    assert!(variable("TORCH_HOME").is_some() && variable("MODELSCOPE_CACHE").is_some());
}
