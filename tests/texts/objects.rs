//! Builds the API objects of a text, and a bundle that answers gpuctl's requests with them. The
//! user may read all namespaces, but no nodes, so that only the texts can explain a job.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::corpus::{Condition, Text};

/// Time of the bundle.
const NOW: &str = "2026-01-31T12:00:00Z";
const CREATED: &str = "2026-01-31T11:40:00Z";
const STARTED: &str = "2026-01-31T11:45:00Z";
const ENDED: &str = "2026-01-31T11:58:00Z";
const SEEN: &str = "2026-01-31T11:59:00Z";
const NODE: &str = "worker-b";

/// Returns the argument of `gpuctl why` that names the object of a text.
pub fn subject(text: &Text) -> String {
    let kind = if has_pod(text) { "pod" } else { "job" };
    format!("{0}/{kind}/{0}", text.id)
}

fn has_pod(text: &Text) -> bool {
    let is_pod_event = |on: &Option<String>| on.as_deref().is_none_or(|on| on == "Pod");
    text.scheduler.is_some()
        || text.group.is_some()
        || text.pod.is_some()
        || text.container.is_some()
        || text.log.is_some()
        || text.events.iter().any(|event| is_pod_event(&event.on))
}

/// Writes a bundle with the objects of all texts.
pub fn write_bundle(path: &Path, texts: &[Text]) {
    let mut lists: BTreeMap<String, Vec<Value>> = EMPTY
        .iter()
        .map(|path| ((*path).to_owned(), Vec::new()))
        .collect();
    let mut answers = discovery();
    for text in texts {
        for (list, object) in objects(text) {
            lists.get_mut(list).expect("a list of EMPTY").push(object);
        }
        if let Some(log) = &text.log {
            let path = format!(
                "/api/v1/namespaces/{0}/pods/{0}/log?container=main",
                text.id
            );
            answers.insert(format!("LOG {path}"), answer(200, &timestamped(log).into()));
        }
    }
    let mut lists: BTreeMap<String, Value> = lists
        .into_iter()
        .map(|(path, items)| (path, answer(200, &json!({"metadata": {}, "items": items}))))
        .collect();
    let denied = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "denied"});
    for path in DENIED {
        lists.insert(path.to_owned(), answer(403, &denied));
    }
    let bundle = json!({
        "format": 1, "program": "test", "at": NOW, "cluster": "texts", "namespace": "default",
        "server": "https://texts.example", "prometheus": null, "lists": lists, "answers": answers,
    });
    let encoder = GzEncoder::new(File::create(path).unwrap(), Compression::fast());
    serde_json::to_writer(encoder, &bundle).unwrap();
}

/// Collections that exist and can be listed.
const EMPTY: [&str; 31] = [
    "/api/v1/pods",
    "/api/v1/events",
    "/api/v1/namespaces",
    "/api/v1/services",
    "/api/v1/configmaps",
    "/api/v1/resourcequotas",
    "/api/v1/limitranges",
    "/api/v1/persistentvolumeclaims",
    "/apis/batch/v1/jobs",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/daemonsets",
    "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/kueue.x-k8s.io/v1beta2/workloads",
    "/apis/kueue.x-k8s.io/v1beta2/localqueues",
    "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    "/apis/kueue.x-k8s.io/v1beta2/cohorts",
    "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    "/apis/kueue.x-k8s.io/v1beta2/admissionchecks",
    "/apis/kueue.x-k8s.io/v1beta2/topologies",
    "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses",
    "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    "/apis/scheduling.run.ai/v2alpha2/podgroups",
    "/apis/scheduling.run.ai/v2/queues",
    "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
    "/apis/autoscaling/v2/horizontalpodautoscalers",
    "/apis/coordination.k8s.io/v1/leases",
];

/// Collections that the user may not list.
const DENIED: [&str; 4] = [
    "/api/v1/nodes",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/resource.k8s.io/v1/resourceclaims",
];

fn answer(code: u16, body: &Value) -> Value {
    json!({"code": code, "body": body})
}

/// Describes the API groups of the collections.
fn discovery() -> BTreeMap<String, Value> {
    let mut groups: BTreeMap<&str, (&str, Vec<&str>)> = BTreeMap::new();
    for path in EMPTY.iter().chain(&DENIED) {
        if let [_, "apis", group, version, plural] = path.split('/').collect::<Vec<_>>()[..] {
            groups
                .entry(group)
                .or_insert((version, Vec::new()))
                .1
                .push(plural);
        }
    }
    let mut answers = BTreeMap::new();
    let mut all = Vec::new();
    for (group, (version, plurals)) in groups {
        let served = json!({"groupVersion": format!("{group}/{version}"), "version": version});
        let entry = json!({"name": group, "versions": [served], "preferredVersion": served});
        all.push(entry.clone());
        answers.insert(format!("GET /apis/{group}"), answer(200, &entry));
        let resources: Vec<Value> = plurals
            .iter()
            .map(|plural| json!({"name": plural}))
            .collect();
        let body = json!({"groupVersion": format!("{group}/{version}"), "resources": resources});
        answers.insert(format!("GET /apis/{group}/{version}"), answer(200, &body));
    }
    answers.insert("GET /apis".to_owned(), answer(200, &json!({"groups": all})));
    let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0"});
    answers.insert("GET /version".to_owned(), answer(200, &version));
    answers
}

/// Adds a time to each line, as the kubelet does.
fn timestamped(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let end: jiff::Timestamp = ENDED.parse().unwrap();
    let timed = lines.iter().enumerate().map(|(index, line)| {
        let before = i64::try_from(lines.len() - index).unwrap();
        let at = end - jiff::SignedDuration::from_millis(before * 20);
        format!("{at} {line}\n")
    });
    timed.collect()
}

fn metadata(text: &Text, uid: &str) -> Value {
    json!({
        "name": text.id, "namespace": text.id, "uid": format!("{}-{uid}", text.id),
        "creationTimestamp": CREATED, "labels": {}, "annotations": {},
    })
}

/// Returns the objects of a text with the paths of their collections.
fn objects(text: &Text) -> Vec<(&'static str, Value)> {
    let mut objects = Vec::new();
    let uid = if has_pod(text) {
        objects.push(("/api/v1/pods", pod(text)));
        "pod"
    } else {
        objects.push(("/apis/batch/v1/jobs", job(text)));
        "job"
    };
    let namespace = json!({"metadata": {"name": text.id}, "status": {"phase": "Active"}});
    objects.push(("/api/v1/namespaces", namespace));
    objects.extend(workload(text).map(|object| ("/apis/kueue.x-k8s.io/v1beta2/workloads", object)));
    objects.extend(group(text));
    for (index, event) in text.events.iter().enumerate() {
        let kind = event.on.clone().unwrap_or_else(|| "Pod".to_owned());
        let mut meta = metadata(text, &format!("event-{index}"));
        meta["name"] = format!("{}.{index}", text.id).into();
        meta["resourceVersion"] = (index + 1).to_string().into();
        let object = json!({
            "metadata": meta, "type": event.kind.as_deref().unwrap_or("Warning"),
            "reason": event.reason, "message": event.message, "count": 1, "lastTimestamp": SEEN,
            "involvedObject": {
                "kind": kind, "name": text.id, "namespace": text.id,
                "uid": format!("{}-{uid}", text.id),
            },
        });
        objects.push(("/api/v1/events", object));
    }
    objects
}

fn condition(condition: &Condition, kind: &str, status: &str) -> Value {
    json!({
        "type": condition.kind.as_deref().unwrap_or(kind),
        "status": condition.status.as_deref().unwrap_or(status),
        "reason": condition.reason, "message": condition.message, "lastTransitionTime": SEEN,
    })
}

fn pod(text: &Text) -> Value {
    let mut meta = metadata(text, "pod");
    if let Some(group) = &text.group {
        let (kind, key) = match group.api.as_str() {
            "scheduling.volcano.sh/v1beta1" => ("annotations", "scheduling.k8s.io/group-name"),
            "scheduling.run.ai/v2alpha2" => ("annotations", "pod-group-name"),
            _ => ("labels", "scheduling.x-k8s.io/pod-group"),
        };
        meta[kind][key] = text.id.clone().into();
    }
    let container = json!({
        "name": "main", "image": "registry.example/train:1",
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
    });
    let mut spec = json!({"restartPolicy": "Never", "containers": [container]});
    let is_placed = text.scheduler.is_none() && text.group.is_none();
    if is_placed {
        spec["nodeName"] = NODE.into();
    }
    json!({"metadata": meta, "spec": spec, "status": pod_status(text, is_placed)})
}

fn pod_status(text: &Text, is_placed: bool) -> Value {
    let state = container_state(text);
    let has_ended = state["terminated"].is_object();
    let restarts = text
        .container
        .as_ref()
        .map_or(0, |container| container.restarts);
    let phase = match &text.pod {
        Some(pod) => pod.phase.as_deref().unwrap_or("Failed"),
        None if has_ended => "Failed",
        None if restarts > 0 => "Running",
        None => "Pending",
    };
    let scheduled = match &text.scheduler {
        Some(unscheduled) => condition(unscheduled, "PodScheduled", "False"),
        None if is_placed => json!({"type": "PodScheduled", "status": "True"}),
        None => json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}),
    };
    let mut conditions = vec![scheduled];
    let mut status = json!({"phase": phase});
    if let Some(pod) = &text.pod {
        (status["reason"], status["message"]) =
            (pod.reason.clone().into(), pod.message.clone().into());
        conditions.extend(
            pod.conditions
                .iter()
                .map(|one| condition(one, "Ready", "True")),
        );
    }
    status["conditions"] = conditions.into();
    // A kubelet that rejects a pod reports no containers.
    let is_rejected = text.pod.is_some() && text.container.is_none() && text.log.is_none();
    if is_placed && !is_rejected {
        let mut container = json!({
            "name": "main", "restartCount": restarts, "state": state, "ready": false,
            "image": "registry.example/train:1",
        });
        let last = text
            .container
            .as_ref()
            .and_then(|container| container.last.as_ref());
        if let Some(last) = last {
            container["lastState"] = json!({"terminated": {
                "exitCode": last.exit, "reason": last.reason, "message": last.message,
                "startedAt": STARTED, "finishedAt": ENDED,
            }});
        }
        status["containerStatuses"] = json!([container]);
        status["startTime"] = STARTED.into();
    }
    status
}

fn container_state(text: &Text) -> Value {
    match &text.container {
        Some(container) if container.running => json!({"running": {"startedAt": SEEN}}),
        Some(container) => match container.exit {
            Some(code) => json!({"terminated": {
                "exitCode": code, "reason": container.reason, "message": container.message,
                "startedAt": STARTED, "finishedAt": ENDED,
            }}),
            None => json!({"waiting": {"reason": container.reason, "message": container.message}}),
        },
        None => json!({"waiting": {"reason": "ContainerCreating"}}),
    }
}

fn job(text: &Text) -> Value {
    let mut meta = metadata(text, "job");
    let is_queued = text.workload.is_some();
    if is_queued {
        meta["labels"]["kueue.x-k8s.io/queue-name"] = "research".into();
    }
    let container = json!({"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}});
    let conditions = text.job.iter().flatten();
    let conditions: Vec<Value> = conditions
        .map(|one| condition(one, "Failed", "True"))
        .collect();
    json!({
        "metadata": meta,
        "spec": {
            "parallelism": 1, "completions": 1, "suspend": is_queued,
            "template": {"spec": {"containers": [container]}},
        },
        "status": {"conditions": conditions},
    })
}

fn workload(text: &Text) -> Option<Value> {
    let workload = text.workload.as_ref()?;
    let conditions = workload.conditions.iter();
    let conditions: Vec<Value> = conditions
        .map(|one| condition(one, "QuotaReserved", "False"))
        .collect();
    let checks: Vec<Value> = workload
        .checks
        .iter()
        .map(|check| {
            let (name, state, message) = (&check.name, &check.state, &check.message);
            json!({"name": name, "state": state, "message": message, "lastTransitionTime": SEEN})
        })
        .collect();
    let mut meta = metadata(text, "workload");
    meta["ownerReferences"] = json!([{
        "apiVersion": "batch/v1", "kind": "Job", "name": text.id, "controller": true,
        "uid": format!("{}-job", text.id),
    }]);
    Some(json!({
        "metadata": meta,
        "spec": {"active": workload.active.unwrap_or(true), "queueName": "research"},
        "status": {"conditions": conditions, "admissionChecks": checks},
    }))
}

fn group(text: &Text) -> Option<(&'static str, Value)> {
    let group = text.group.as_ref()?;
    let path = EMPTY
        .into_iter()
        .find(|path| *path == format!("/apis/{}/podgroups", group.api))
        .unwrap_or_else(|| panic!("{}: unknown API {}", text.id, group.api));
    let conditions: Vec<Value> = group
        .conditions
        .iter()
        .map(|one| condition(one, "Unschedulable", "True"))
        .collect();
    let object = json!({
        "metadata": metadata(text, "group"),
        "spec": {"minMember": group.members, "queue": "research"},
        "status": {
            "phase": group.phase, "conditions": conditions, "schedulingConditions": conditions,
        },
    });
    Some((path, object))
}
