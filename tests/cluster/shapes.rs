//! Tests the shape of JSON output: the names of fields, their types, and whether they can be null.

use serde_json::{Value, json};

use crate::support::Scene;

/// Checks that `value` has every key of `shape`, with a value of the same type. `text?` and
/// `number?` also allow null.
#[track_caller]
fn assert_shape(value: &Value, shape: &Value, path: &str) {
    match (value, shape) {
        (_, Value::String(word)) if word == "text?" => {
            assert!(value.is_string() || value.is_null(), "{path}: {value}");
        }
        (_, Value::String(word)) if word == "number?" => {
            assert!(value.is_number() || value.is_null(), "{path}: {value}");
        }
        (Value::String(text), Value::String(word)) if word == "time" => {
            assert!(
                text.ends_with('Z') && text.len() >= 20 && text.as_bytes()[10] == b'T',
                "{path}: {text}"
            );
        }
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_)) => {}
        (Value::Array(items), Value::Array(shapes)) => {
            items.iter().enumerate().for_each(|(index, item)| {
                assert_shape(item, &shapes[0], &format!("{path}[{index}]"));
            });
        }
        (Value::Object(fields), Value::Object(shapes)) => {
            for (key, shape) in shapes {
                let value = fields
                    .get(key)
                    .unwrap_or_else(|| panic!("{path}.{key} is missing"));
                assert_shape(value, shape, &format!("{path}.{key}"));
            }
        }
        _ => panic!("{path}: {value} does not match {shape}"),
    }
}

#[test]
fn answers_about_jobs_have_the_documented_fields() {
    let scene = Scene::with_nodes("shapes", 1);
    let yaml = scene.training("a", "");
    let created = scene
        .gpuctl_with(&["create", "-f", "-", "-o", "json"], &yaml)
        .ok()
        .json();
    assert_shape(
        &created,
        &json!({
            "jobId": "a", "name": "a", "kind": "training", "status": "pending", "createdAt": "time", "message": "", "namespace": "shapes",
        }),
        "create",
    );
    assert_eq!(created["message"], "submitted to shapes");

    let two_jobs = format!("{yaml}---\n{}", scene.training("b", ""));
    let run = scene
        .gpuctl_with(&["create", "-f", "-", "-o", "json"], &two_jobs)
        .exits(1);
    assert_shape(
        &run.json(),
        &json!({
            "success": [{"kind": "training", "jobId": "b", "name": "b"}],
            "failed": [{"kind": "training", "name": "a", "error": "AlreadyExists", "message": ""}],
        }),
        "batch",
    );
    assert_eq!(run.json()["failed"][0]["error"], "AlreadyExists");
    let error: Value = serde_json::from_str(run.err.lines().next().unwrap()).unwrap();
    assert_shape(
        &error,
        &json!({"error": "", "kind": "request", "message": "", "causes": [""], "notes": [""], "hints": [""], "file": "text?", "line": "number?", "column": "number?"}),
        "error",
    );

    scene.until("a", "running", None);
    let list = scene.gpuctl(&["get", "jobs", "-o", "json"]).ok().json();
    assert_shape(
        &list,
        &json!({"total": 2, "items": [{
            "jobId": "a", "name": "a", "kind": "training", "pool": "text?", "status": "running", "gpu": 1, "gpuType": "text?",
            "startedAt": "text?", "progress": "number?", "remaining": "number?", "namespace": "shapes", "reason": "text?", "message": "text?",
            "gpuHeld": 1, "user": "text?", "createdAt": "time", "finishedAt": "text?", "podsRunning": 1, "podsWanted": 1,
        }]}),
        "get jobs",
    );
    let described = scene
        .gpuctl(&["describe", "job", "a", "-o", "json"])
        .ok()
        .json();
    assert_shape(
        &described,
        &json!({
            "jobId": "a", "name": "a", "kind": "training", "version": "v0.1", "yamlContent": "", "status": "running", "pool": "text?",
            "resources": {"gpu": 1, "gpuTotal": 1, "gpuType": "text?", "cpu": "number?", "memory": "text?", "nodeCount": 1},
            "metrics": {"gpuUtilization": "number?", "memoryUsage": "text?", "networkLatency": "text?", "throughput": "text?"},
            "createdAt": "time", "startedAt": "time", "k8sResources": {"jobName": "a", "pods": [""], "objects": [""]}, "namespace": "shapes",
            "pods": [{"name": "", "rank": 0, "node": "text?", "status": "", "gpu": 1, "restarts": 0, "startedAt": "text?"}],
            "events": [{"timestamp": "text?", "warning": false, "reason": "", "message": "", "object": "", "count": 1}],
        }),
        "describe",
    );
    // The YAML is exactly the submitted document.
    assert_eq!(described["yamlContent"], yaml);
    assert_shape(
        &scene.gpuctl(&["logs", "a", "-o", "json"]).json(),
        &json!({"logs": [""], "lastTimestamp": "text?"}),
        "logs",
    );

    let deleted = scene
        .gpuctl(&["delete", "job", "a", "-o", "json"])
        .ok()
        .json();
    assert_shape(
        &deleted,
        &json!({"jobId": "a", "status": "deleted", "message": ""}),
        "delete",
    );
    let run = scene
        .gpuctl(&["delete", "job", "b", "nope", "-o", "json"])
        .exits(1);
    assert_shape(
        &run.json(),
        &json!({
            "success": [{"jobId": "b", "status": "deleted", "message": ""}], "failed": [{"name": "nope", "error": "NotFound", "message": ""}],
        }),
        "delete batch",
    );
    let empty = scene.gpuctl(&["get", "jobs", "-o", "json"]).ok().json();
    assert_eq!(empty, json!({"total": 0, "items": [], "coverage": null}));
}

#[test]
fn answers_about_services_have_the_documented_fields() {
    let scene = Scene::with_nodes("service-shapes", 1);
    let yaml = scene.service(
        "web",
        "vllm",
        1,
        "autoscaling: {maxReplicas: 2, targetGPUUtilization: 70}",
    );
    let created = scene
        .gpuctl_with(&["create", "-f", "-", "-o", "json"], &yaml)
        .ok();
    assert_shape(
        &created.json(),
        &json!({"jobId": "web", "name": "web", "kind": "inference", "status": "pending", "createdAt": "time", "message": ""}),
        "create",
    );
    let warning: Value = serde_json::from_str(created.err.lines().next().unwrap()).unwrap();
    assert_eq!(warning["kind"], "warning", "{warning}");
    scene.until("web", "running", None);
    assert_shape(
        &scene
            .gpuctl(&["describe", "job", "web", "-o", "json"])
            .ok()
            .json(),
        &json!({
            "jobId": "web", "kind": "inference", "version": "v0.1", "yamlContent": "", "status": "running", "pool": "text?",
            "resources": {"gpu": 1, "gpuTotal": 1, "gpuType": "text?", "cpu": "number?", "memory": "text?"},
            "metrics": {"gpuUtilization": "number?", "memoryUsage": "text?", "networkLatency": "text?", "throughput": "text?"},
            "startedAt": "time", "k8sResources": {"jobName": "web", "pods": [""]},
            "addresses": [{"type": "cluster", "url": "text?"}],
            "autoscaling": {"minReplicas": 1, "maxReplicas": 2, "desiredReplicas": "number?", "problem": "text?",
                "metrics": [{"metric": "", "currentPercent": "number?", "targetPercent": "number?"}]},
            "pods": [{"name": "", "rank": "number?", "ready": true, "status": "", "restarts": 0}],
        }),
        "describe",
    );
    let scaled = json!({"jobId": "web", "namespace": "", "kind": "inference", "status": "", "replicasBefore": 1, "replicas": 0, "message": ""});
    for (arguments, status) in [
        (&["pause", "job", "web"][..], "paused"),
        (&["resume", "job", "web"], "resumed"),
        (&["scale", "web", "--replicas", "2"], "scaled"),
    ] {
        let answer = scene
            .gpuctl(&[arguments, &["-o", "json"]].concat())
            .ok()
            .json();
        assert_shape(&answer, &scaled, status);
        assert_eq!(answer["status"], status);
    }
    let events = scene.gpuctl(&["events", "web", "-o", "json"]).ok().json();
    let event = json!({"timestamp": "text?", "warning": false, "reason": "", "message": "", "object": "", "count": 1});
    assert_shape(&events, &json!({"total": 1, "items": [event]}), "events");
    let secret = scene
        .gpuctl(&[
            "create",
            "secret",
            "s",
            "--from-file",
            "Cargo.toml",
            "-o",
            "json",
        ])
        .ok()
        .json();
    assert_shape(
        &secret,
        &json!({"name": "s", "namespace": "", "type": "Opaque", "keys": [""], "created": true}),
        "secret",
    );
    // On an error, stdout is empty.
    for arguments in [
        &["scale", "nope", "--replicas", "1"][..],
        &["pause", "job", "nope"],
        &["events", "nope"],
        &["open", "nope"],
    ] {
        let run = scene
            .gpuctl(&[arguments, &["-o", "json"]].concat())
            .exits(4);
        let error: Value = serde_json::from_str(run.err.trim()).unwrap();
        assert_eq!(
            (run.out.as_str(), &error["error"]),
            ("", &json!("NotFound")),
            "{arguments:?}"
        );
    }
}
