//! Checks that `why --all` finds every broken workload among many, whoever created them, and
//! invents none.

use std::collections::BTreeMap;
use std::time::Duration;

use gpuctl_sandbox::eventually;
use serde_json::{Value, json};

use crate::support::{GPU, Scene};

/// Number of workloads that have no problem.
const HEALTHY: usize = 180;

/// How a workload is broken, and the causes that describe it.
struct Fault {
    /// The annotations of its pods, which set their status.
    annotations: Value,
    causes: &'static [&'static str],
    /// Fields merged into the spec of its pods.
    spec: Value,
}

fn status(value: Value) -> Value {
    let mut status = json!({"startTime": "2026-01-31T10:00:00Z"});
    let fields = status.as_object_mut().unwrap();
    fields.extend(value.as_object().unwrap().clone());
    json!({"sandbox/status": status.to_string()})
}

fn container(phase: &str, restarts: u32, state: &Value, last: &Value) -> Value {
    status(
        json!({"phase": phase, "containerStatuses": [{"name": "main", "image": "busybox", "imageID": "",
            "ready": false, "restartCount": restarts, "state": state, "lastState": last}]}),
    )
}

fn waiting(reason: &str, message: &str) -> Value {
    let state = json!({"waiting": {"reason": reason, "message": message}});
    container("Pending", 0, &state, &json!({}))
}

fn ended(code: i32, reason: &str) -> Value {
    let end = json!({"exitCode": code, "reason": reason, "startedAt": "2026-01-31T10:00:00Z",
        "finishedAt": "2026-01-31T10:51:00Z"});
    container("Failed", 0, &json!({"terminated": end}), &json!({}))
}

fn crash_loop(code: i32, reason: &str) -> Value {
    let last = json!({"terminated": {"exitCode": code, "reason": reason,
        "startedAt": "2026-01-31T10:00:00Z", "finishedAt": "2026-01-31T10:51:00Z"}});
    let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}});
    container("Running", 7, &state, &last)
}

fn evicted(message: &str) -> Value {
    status(json!({"phase": "Failed", "reason": "Evicted", "message": message}))
}

/// Twenty ways to be broken. Those that end a pod for good are not possible for a Deployment or a
/// StatefulSet, so they come last and belong to other kinds.
fn faults() -> Vec<Fault> {
    let fault = |annotations: Value, causes| Fault {
        annotations,
        causes,
        spec: json!({}),
    };
    let with = |spec: Value, causes| Fault {
        annotations: json!({}),
        causes,
        spec,
    };
    let pull = "failed to pull and unpack image \"busybox\": ";
    vec![
        fault(crash_loop(1, "Error"), &["crash-loop"]),
        fault(
            crash_loop(137, "OOMKilled"),
            &["crash-loop", "oom-container"],
        ),
        fault(
            waiting(
                "ImagePullBackOff",
                &format!(
                    "{pull}failed to resolve reference: docker.io/library/busybox:9: not found"
                ),
            ),
            &["image-missing"],
        ),
        fault(
            waiting("CreateContainerConfigError", "secret \"token\" not found"),
            &["secret-missing"],
        ),
        fault(
            waiting(
                "CreateContainerConfigError",
                "configmap \"settings\" not found",
            ),
            &["configmap-missing"],
        ),
        fault(
            waiting(
                "RunContainerError",
                "failed to create containerd task: exec: \"train\": executable file not found in $PATH",
            ),
            &["start-error"],
        ),
        with(
            json!({"nodeSelector": {"missing": "yes"}}),
            &["node-selector"],
        ),
        with(
            json!({"containers": [{"name": "main", "image": "busybox", "resources":
                {"requests": {GPU: "9"}, "limits": {GPU: "9"}}}]}),
            &["never-fits"],
        ),
        with(
            json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]}),
            &["claim-missing"],
        ),
        with(json!({"schedulerName": "nobody"}), &["scheduler-absent"]),
        with(
            json!({"schedulingGates": [{"name": "example.com/wait"}]}),
            &["scheduling-gate"],
        ),
        with(
            json!({"priorityClassName": "absent"}),
            &["priority-class-missing"],
        ),
        fault(ended(1, "Error"), &["exit-code"]),
        fault(ended(139, "Error"), &["signal"]),
        fault(ended(137, "OOMKilled"), &["oom-container"]),
        fault(
            evicted(
                "The node was low on resource: memory. Threshold quantity: 100Mi, available: 20Mi.",
            ),
            &["evicted-memory"],
        ),
        fault(
            evicted("Usage of EmptyDir volume \"scratch\" exceeds the limit \"10Gi\"."),
            &["evicted-disk"],
        ),
        fault(ended(3, "Error"), &["exit-code"]),
        fault(ended(134, "Error"), &["signal"]),
        fault(ended(135, "Error"), &["signal"]),
    ]
}

fn pod_spec(pool: &str, serves: bool, fault: Option<&Fault>) -> Value {
    let one = json!({GPU: "1"});
    let mut spec = json!({"nodeSelector": {"gpuctl/pool": pool}, "terminationGracePeriodSeconds": 1,
        "restartPolicy": if serves { "Always" } else { "Never" },
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": one, "limits": one}}]});
    for (key, value) in fault
        .iter()
        .flat_map(|fault| fault.spec.as_object().unwrap())
    {
        spec[key] = value.clone();
    }
    spec
}

/// A workload of the kind with this number, in the order of `KINDS`.
fn workload(kind: usize, name: &str, pool: &str, fault: Option<&Fault>) -> Value {
    let serves = matches!(kind, 2 | 3);
    let annotations = fault.map_or(json!({}), |fault| fault.annotations.clone());
    let mut labels = json!({"app": name});
    if kind == 4 {
        labels = json!({"app": name, "app.kubernetes.io/managed-by": "gpuctl", "gpuctl/job": name,
            "gpuctl/kind": "training"});
    }
    let metadata = json!({"name": name, "labels": labels});
    let spec = pod_spec(pool, serves, fault);
    let template =
        json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec});
    let selector = json!({"matchLabels": {"app": name}});
    match kind {
        0 => json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {"name": name, "labels": labels, "annotations": annotations}}),
        2 => json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": 1, "selector": selector, "template": template}}),
        3 => json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata,
            "spec": {"replicas": 1, "serviceName": name, "selector": selector, "template": template}}),
        _ => json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
            "spec": {"completions": 1, "parallelism": 1, "completionMode": "Indexed",
                "backoffLimit": 0, "template": template}}),
    }
}

const KINDS: [&str; 5] = ["pod", "job", "deployment", "statefulset", "training"];

/// Returns the name that `why` prints for a workload.
fn full_name(namespace: &str, kind: usize, name: &str) -> String {
    match kind {
        4 => format!("{namespace}/{name}"),
        _ => format!("{namespace}/{}/{name}", KINDS[kind]),
    }
}

/// Describes the workloads whose cause is not an expected one.
fn wrong(found: &BTreeMap<String, String>, expected: &BTreeMap<String, &[&str]>) -> String {
    let missing = expected
        .iter()
        .filter(|(name, causes)| {
            found
                .get(*name)
                .is_none_or(|cause| !causes.contains(&cause.as_str()))
        })
        .map(|(name, causes)| format!("{name}: {:?} instead of {causes:?}", found.get(name)));
    let invented = found
        .iter()
        .filter(|(name, _)| !expected.contains_key(*name))
        .map(|(name, cause)| format!("{name}: {cause} instead of nothing"));
    missing.chain(invented).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_broken_workload_of_anybody_is_found() {
    let scene = Scene::with_nodes("sweeping", 26);
    let mut objects = Vec::new();
    let mut expected: BTreeMap<String, &[&str]> = BTreeMap::new();
    for number in 0..HEALTHY {
        objects.push(workload(
            number % KINDS.len(),
            &format!("healthy-{number}"),
            "sweeping",
            None,
        ));
    }
    let faults = faults();
    assert_eq!(faults.len(), 20);
    for (number, fault) in faults.iter().enumerate() {
        // A pod cannot name a priority class that does not exist, and an ended pod of a service is
        // replaced.
        let kind = match number {
            0..12 => [1, 2, 3, 4, 0][number % 5],
            _ => [0, 1, 4][number % 3],
        };
        let kind = if fault.causes == ["priority-class-missing"] {
            2
        } else {
            kind
        };
        let name = format!("broken-{number}");
        objects.push(workload(kind, &name, "sweeping", Some(fault)));
        expected.insert(full_name("sweeping", kind, &name), fault.causes);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    scene
        .admin
        .run_with(&["create", "-n", "sweeping", "-f", "-"], &list.to_string());
    let groups = |answer: &Value| -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for group in answer["groups"].as_array().unwrap() {
            for name in group["names"].as_array().unwrap() {
                let cause = group["cause"].as_str().unwrap().to_owned();
                found.insert(name.as_str().unwrap().to_owned(), cause);
            }
        }
        found
    };
    let answer = eventually("all faults are found", Duration::from_secs(90), || {
        let answer = scene.gpuctl(&["why", "--all", "-o", "json"]).ok().json();
        let wrong = wrong(&groups(&answer), &expected);
        if wrong.is_empty() {
            Ok(answer)
        } else {
            Err(wrong)
        }
    });
    // 12 of the broken workloads are alive. Those that wait lack a GPU each, except one that asks
    // for nine.
    let never = answer["groups"].as_array().unwrap().iter();
    let never: Vec<&Value> = never
        .filter(|group| group["cause"] == "never-fits")
        .collect();
    assert_eq!(
        (
            never[0]["gpusHeld"].as_u64(),
            never[0]["gpusLacking"].as_u64()
        ),
        (Some(0), Some(9))
    );
    let output = scene.gpuctl(&["why", "--all"]).ok();
    assert!(
        output
            .err
            .contains("with a problem: 20 of 40 gpuctl jobs and 160 other workloads"),
        "{}",
        output.err
    );
    // A list of jobs says that it leaves out others.
    let jobs = scene.gpuctl(&["get", "jobs"]).ok();
    assert!(
        jobs.err
            .contains("that gpuctl did not create; see `gpuctl get workloads`"),
        "{}",
        jobs.err
    );
}
