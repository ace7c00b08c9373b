//! Checks that both encodings decode to the same objects, and that no input makes the decoder
//! panic. The encoder is `encode.rs`. `tests/cluster/encodings.rs` compares both encodings of a
//! real API server.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::encode::*;
use crate::transport::decode::{ListPage, WirePod};
use crate::transport::protobuf::*;

fn text() -> impl Strategy<Value = String> {
    "[a-zé\u{1b}]{1,12}"
}

fn time() -> impl Strategy<Value = String> {
    (1_i64..4_000_000_000).prop_map(|second| Timestamp::from_second(second).unwrap().to_string())
}

fn amounts() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map(
        prop_oneof!["nvidia.com/gpu", "cpu", "memory"],
        "[1-9][0-9]{0,2}(m|Gi)?",
        0..3,
    )
    .prop_map(|amounts| json!(amounts))
}

fn container() -> impl Strategy<Value = Value> {
    (
        text(),
        amounts(),
        amounts(),
        proptest::option::of(1_u16..9000),
        any::<bool>(),
    )
        .prop_map(|(name, limits, requests, port, has_probe)| {
            let mut container =
                json!({"name": name, "resources": {"limits": limits, "requests": requests}});
            if let Some(port) = port {
                container["ports"] = json!([{"containerPort": port}, {"containerPort": 1}]);
            }
            if has_probe {
                container["readinessProbe"] = json!({"httpGet": {}});
                container["startupProbe"] = json!({});
            }
            container
        })
}

fn status() -> impl Strategy<Value = Value> {
    (text(), 0_u32..9, proptest::option::of(any::<bool>()), time(), -1_i32..140, 0..3_u8).prop_map(
        |(name, restarts, started, at, code, state)| {
            let terminated = json!({"terminated": {"exitCode": code, "reason": "Error", "startedAt": at, "finishedAt": at}});
            let state = match state {
                0 => json!({"waiting": {"reason": "ImagePullBackOff", "message": name}}),
                1 => json!({"running": {"startedAt": at}}),
                _ => terminated.clone(),
            };
            let mut status = json!({"name": name, "restartCount": restarts, "state": state, "lastState": terminated});
            if let Some(started) = started {
                status["started"] = json!(started);
            }
            status
        },
    )
}

prop_compose! {
    fn pod()(
        (name, namespace, uid, node, phase) in (text(), text(), text(), text(), prop_oneof!["Running", "Pending", "Failed"]),
        labels in proptest::collection::btree_map("[a-z./]{1,9}", "[a-z]{0,4}", 0..4),
        (created, deleted) in (time(), proptest::option::of(time())),
        containers in proptest::collection::vec(container(), 0..3),
        statuses in proptest::collection::vec(status(), 0..3),
        (priority, claim, owned) in (-10_i64..10, text(), any::<bool>()),
    ) -> Value {
        let owner = json!({"kind": "Job", "name": name, "uid": uid, "apiVersion": "batch/v1", "controller": owned});
        let mut pod = json!({
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "labels": labels, "creationTimestamp": created,
                "ownerReferences": [owner], "finalizers": ["a/b", "c/d"]},
            "spec": {"nodeName": node, "containers": containers, "initContainers": containers, "priority": priority,
                "volumes": [{"persistentVolumeClaim": {"claimName": claim}}, {"hostPath": {}}], "readinessGates": [{}],
                "overhead": {"cpu": "250m"}, "resourceClaims": [{"name": claim}]},
            "status": {"phase": phase, "hostIP": "10.0.0.1", "startTime": created, "containerStatuses": statuses,
                "conditions": [{"type": "Ready", "status": "False", "reason": claim, "lastTransitionTime": created}]},
        });
        if let Some(deleted) = deleted {
            pod["metadata"]["deletionTimestamp"] = json!(deleted);
        }
        pod
    }
}

proptest! {
    #[test]
    fn both_encodings_read_alike(pods in proptest::collection::vec(pod(), 0..4), token in "[a-z]{0,5}") {
        let mut list = json!({"metadata": {"resourceVersion": "7"}, "items": pods});
        if !token.is_empty() {
            list["metadata"]["continue"] = json!(token);
        }
        let message = list_of("/api/v1/pods").unwrap();
        let (in_json, in_protobuf) = (list.to_string(), answer(message, &list));
        let from_json: ListPage<WirePod<'_>> = serde_json::from_str(&in_json).unwrap();
        let from_protobuf: ListPage<WirePod<'_>> = decode(&in_protobuf, message).unwrap();
        prop_assert_eq!(from_json.items.len(), from_protobuf.items.len());
        for (protobuf_pod, json_pod) in from_protobuf.items.iter().zip(&from_json.items) {
            prop_assert_eq!(format!("{:?}", protobuf_pod.pod()), format!("{:?}", json_pod.pod()));
            prop_assert_eq!(format!("{:?}", protobuf_pod.spec.total()), format!("{:?}", json_pod.spec.total()));
            prop_assert_eq!(protobuf_pod.metadata.controller().map(|owner| owner.uid.clone()), json_pod.metadata.controller().map(|owner| owner.uid.clone()));
            prop_assert_eq!(protobuf_pod.spec.volumes.len(), json_pod.spec.volumes.len());
        }
        // Every named field must survive encoding and decoding, for any struct.
        let all: Value = decode(&in_protobuf, message).unwrap();
        prop_assert_eq!(sorted(&all), sorted(&without_empty(list)));
    }

    #[test]
    fn no_bytes_break_the_reader(pods in proptest::collection::vec(pod(), 1..3), cuts in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..9), length in any::<usize>()) {
        let message = list_of("/api/v1/namespaces/a/pods").unwrap();
        let mut bytes = answer(message, &json!({"items": pods}));
        for (place, byte) in cuts {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        bytes.truncate(length % (bytes.len() + 1));
        let _ = decode::<ListPage<WirePod<'_>>>(&bytes, message).map(|page| page.items.iter().map(WirePod::pod).count());
        let _ = decode::<Value>(&bytes, message);
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let message = list_of("/api/v1/nodes").unwrap();
        let _ = decode::<Value>(&bytes, message);
        let _ = decode::<Value>(&[b"k8s\0".as_slice(), &bytes].concat(), message);
    }
}

/// Removes what JSON omits: empty lists and maps, and empty strings that are not values of maps.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (key, without_empty(value)))
            .filter(|(_, value)| !matches!(value, Value::Array(items) if items.is_empty()))
            .filter(|(key, value)| {
                !(["labels", "limits", "requests"].contains(&key.as_str())
                    && value.as_object().is_some_and(serde_json::Map::is_empty))
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        other => other,
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields
                .iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            fields.into_iter().collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[test]
fn lists_that_are_read_in_protobuf() {
    for path in [
        "/api/v1/pods",
        "/api/v1/namespaces/a/pods",
        "/api/v1/nodes",
        "/apis/batch/v1/jobs",
        "/apis/batch/v1/namespaces/a/cronjobs",
        "/apis/apps/v1/namespaces/a/deployments",
        "/apis/apps/v1/statefulsets",
        "/apis/apps/v1/replicasets",
        "/apis/apps/v1/daemonsets",
    ] {
        assert!(list_of(path).is_some(), "{path}");
    }
    for path in [
        "/api/v1/configmaps",
        "/apis/example.com/v1/pods",
        "/api/v1/namespaces/pods",
        "/apis/batch/v1/namespaces/a/pods",
    ] {
        assert!(list_of(path).is_none(), "{path}");
    }
}

#[test]
fn refusals_are_read_and_invalid_times_are_ignored() {
    let status = json!({"metadata": {"continue": "later"}, "message": "too old", "reason": "Expired", "code": 410,
        "details": {"kind": "pods", "causes": [{"reason": "R", "message": "M", "field": "F"}]}});
    let decoded: Value = decode(&answer(&STATUS, &status), &STATUS).unwrap();
    assert_eq!(sorted(&decoded), sorted(&status));
    // Go writes 1970 as the start of a container that never started, and a zero time as an empty
    // message.
    let mut bytes = Vec::new();
    bytes_field(8, b"", &mut bytes);
    let mut pod = Vec::new();
    bytes_field(1, &bytes, &mut pod);
    let mut list = Vec::new();
    bytes_field(2, &pod, &mut list);
    let mut envelope = b"k8s\0".to_vec();
    bytes_field(2, &list, &mut envelope);
    let message = list_of("/api/v1/pods").unwrap();
    let page: ListPage<WirePod<'_>> = decode(&envelope, message).unwrap();
    assert_eq!(page.items[0].metadata.creation_timestamp, None);
    // Kubernetes never puts other fields between the items of a list.
    let mut split_message = Vec::new();
    bytes_field(14, b"a", &mut split_message);
    bytes_field(1, b"name", &mut split_message);
    bytes_field(14, b"b", &mut split_message);
    let (mut pod, mut list, mut envelope) = (Vec::new(), Vec::new(), b"k8s\0".to_vec());
    bytes_field(1, &split_message, &mut pod);
    bytes_field(2, &pod, &mut list);
    bytes_field(2, &list, &mut envelope);
    assert!(
        decode::<ListPage<WirePod<'_>>>(&envelope, message).is_err(),
        "so the list is requested as JSON"
    );
}
