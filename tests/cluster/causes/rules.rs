//! Scenarios with jobs that a rule blocks: quotas, policies, webhooks, gates, or missing volumes.

use serde_json::{Value, json};

use super::capacity::mounts;
use super::setup::{GPU, NS, Setup, container, gpus, holder, job, job_with, pod, service, with};

fn quota(hard: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": hard}})
}

fn limits(limit: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": [limit]}})
}

fn claim(class: Value) -> Value {
    with(
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}),
        json!({"spec": {"storageClassName": class}}),
    )
}

fn policy() -> [Value; 2] {
    [
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": NS},
            "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"]}]},
                "validations": [{"expression": "has(object.metadata.labels.team)", "message": "pods must name their team"}]}}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": NS},
            "spec": {"policyName": NS, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NS}}}}}),
    ]
}

/// A webhook with `failurePolicy: Fail` and no server.
fn dead_webhook() -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": NS},
        "webhooks": [{"name": "guard.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "timeoutSeconds": 2, "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NS}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]})
}

/// A KAI pod group whose queue is at its limit, and the group's pod. KAI is not installed, so the
/// test creates the definition and writes what KAI's scheduler would.
fn kai() -> Setup {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduling.run.ai"},
        "spec": {"group": "scheduling.run.ai", "scope": "Namespaced", "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
            "versions": [{"name": "v2alpha2", "served": true, "storage": true, "schema": schema}]}});
    let message = "queue research would exceed its limit of 8 GPUs";
    let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "pg-train"},
        "spec": {"queue": "research", "minMember": 1},
        "status": {"schedulingConditions": [{"type": "UnschedulableOnNodePool", "status": "True", "nodePool": "default",
            "reasons": [{"reason": "OverLimit", "message": message}]}]}});
    let waiting_pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "annotations": {"pod-group-name": "pg-train"}},
        "spec": with(pod(1), json!({"schedulerName": "kai-scheduler"}))});
    Setup::new("rules", "a queue of KAI at its limit", "queue-quota")
        .nodes([gpus(0)])
        .before([definition])
        .objects([group, waiting_pod])
        .act(&[
            "patch",
            "pod",
            "train",
            "--subresource=status",
            "-p",
            KAI_WAITS,
        ])
        .without_nodes("unknown")
}

const KAI_WAITS: &str = r#"{"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
    "message": "resources were not found"}]}}"#;

pub fn setups() -> Vec<Setup> {
    let new = |title: &str, truth| Setup::new("rules", title, truth).nodes([gpus(0)]);
    let on_host = with(
        pod(1),
        json!({"volumes": [{"name": "host", "hostPath": {"path": "/data"}}]}),
    );
    let suspended = |labels: bool| {
        let mut one = with(job(1, pod(1)), json!({"spec": {"suspend": true}}));
        // Kubernetes copies the labels of the pod template to a Job without labels.
        if !labels {
            one["metadata"]["labels"] = json!({"team": "a"});
        }
        one
    };
    let mut foreign = service(0, pod(1), json!({}));
    foreign["metadata"]["labels"] = json!({});
    let class = |mode: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": format!("{NS}-class")},
            "provisioner": "example.com/nobody", "volumeBindingMode": mode})
    };
    vec![
        kai(),
        new("GPUs of the quota are used", "quota")
            .before([quota(json!({"requests.nvidia.com/gpu": "4"})), holder(0, &json!({GPU: "4"}))])
            .objects([job(1, pod(1))]),
        new("a quota of pods", "quota")
            .before([quota(json!({"pods": "1"})), holder(0, &json!({GPU: "1"}))])
            .objects([job(1, pod(1))]),
        new("a quota of GPUs and a service", "quota")
            .before([quota(json!({"requests.nvidia.com/gpu": "4"})), holder(0, &json!({GPU: "4"}))])
            .objects([service(1, pod(2), json!({}))]),
        // Only the event shows that the quota counts a resource for which the pod sets no value.
        new("a quota of CPU and a pod without", "quota")
            .before([quota(json!({"requests.cpu": "100"}))])
            .objects([job(1, pod(1))])
            .without_events("unknown"),
        new("a LimitRange", "limit-range")
            .before([limits(json!({"type": "Container", "max": {"cpu": "2"}}))])
            .objects([job(1, container(pod(1), json!({"resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}})))])
            .without_events("unknown"),
        new("a LimitRange of memory and a service", "limit-range")
            .before([limits(json!({"type": "Container", "max": {"memory": "2Gi"}}))])
            .objects([service(
                1,
                container(pod(1), json!({"resources": {"requests": {"memory": "4Gi"}, "limits": {"memory": "4Gi"}}})),
                json!({}),
            )]),
        Setup {
            denials: vec![("/v1/pods", "image must come from our registry")],
            ..new("a webhook", "webhook-denied").objects([job(1, pod(1))]).without_events("unknown")
        },
        Setup {
            denials: vec![("/v1/pods", "no cost center")],
            ..new("a webhook and a service", "webhook-denied").objects([service(1, pod(1), json!({}))])
        },
        new("a webhook that is down", "webhook-down")
            .before([dead_webhook()])
            .objects([job(1, pod(1))])
            .without_events("unknown"),
        new("a webhook that is down, and a service", "webhook-down").before([dead_webhook()]).objects([service(
            1,
            pod(1),
            json!({}),
        )]),
        new("a policy", "policy-denied").before(policy()).objects([job(1, pod(1))]).without_events("unknown"),
        Setup {
            namespace_labels: json!({"pod-security.kubernetes.io/enforce": "baseline"}),
            ..new("Pod Security", "pod-security").objects([job(1, on_host)]).without_events("unknown")
        },
        Setup {
            namespace_labels: json!({"pod-security.kubernetes.io/enforce": "restricted"}),
            ..new("restricted Pod Security and a service", "pod-security").objects([service(1, pod(1), json!({}))])
        },
        new("no such PriorityClass", "priority-class-missing").objects([service(
            1,
            with(pod(1), json!({"priorityClassName": "nobody-made-it"})),
            json!({}),
        )]),
        new("paused", "paused").objects([suspended(true)]),
        new("a paused service", "paused").objects([service(0, pod(1), json!({}))]),
        Setup { subject: "train", ..new("suspended by another tool", "suspended").objects([suspended(false)]) },
        new("a workload that gpuctl did not create, with no replicas", "suspended").objects([foreign]),
        new("a scheduling gate", "scheduling-gate")
            .objects([job(1, with(pod(1), json!({"schedulingGates": [{"name": "example.com/wait"}]})))]),
        new("no such scheduler", "scheduler-absent").objects([job(1, with(pod(1), json!({"schedulerName": "nobody"})))]),
        new("no such claim", "claim-missing").objects([job(1, mounts(pod(1), "nothing"))]),
        new("a claim without a volume", "claim-pending")
            .before([class("Immediate"), claim(json!(format!("{NS}-class")))])
            .objects([job(1, mounts(pod(1), "data"))]),
        new("a claim without a class", "claim-pending").before([claim(json!(""))]).objects([job(1, mounts(pod(1), "data"))]),
        // Storage classes are cluster-scoped. A user who may not read them sees only a claim
        // without a volume.
        new("no such storage class", "storage-class-missing")
            .before([claim(json!(format!("{NS}-typo")))])
            .objects([job(1, mounts(pod(1), "data"))])
            .without_nodes("claim-pending"),
        new("a gated bare annotation", "scheduling-gate").objects([job_with(
            2,
            with(pod(2), json!({"schedulingGates": [{"name": "example.com/quota"}]})),
            json!({"a": "b"}),
        )]),
    ]
}
