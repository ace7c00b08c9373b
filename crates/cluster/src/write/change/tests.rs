//! Tests for `change.rs`.

use serde_json::json;

use super::*;
use gpuctl_core::model::contract::labels::RUN;

#[test]
fn conflicts_with_own_writes_are_ignored() {
    let blame = |message: &str| Blame {
        field: ".spec.replicas".into(),
        message: message.into(),
    };
    let failure = |fields: Vec<Blame>| Failure::Api {
        code: 409,
        reason: "Conflict".into(),
        message: String::new(),
        resume: None,
        fields,
        resource: Box::default(),
    };
    assert!(is_of_ours(
        &failure(vec![blame("conflict with \"gpuctl\" using apps/v1")]),
        false
    ));
    assert!(!is_of_ours(
        &failure(vec![blame("conflict with \"helm\" using apps/v1")]),
        true
    ));
    let autoscaler = failure(vec![blame(
        "conflict with \"kube-controller-manager\" with subresource \"scale\"",
    )]);
    assert!(is_of_ours(&autoscaler, true) && !is_of_ours(&autoscaler, false));
    // A conflict between resource versions lists no field.
    assert!(!is_of_ours(&failure(Vec::new()), true));
}

#[test]
fn managed_fields_are_not_a_difference() {
    let live = json!({"metadata": {"name": "a", "uid": "1", "annotations": {RUN: "x"}}, "spec": {"a": 1}, "status": {"b": 2}});
    assert_eq!(
        comparable(&live),
        json!({"metadata": {"name": "a"}, "spec": {"a": 1}})
    );
}
