//! Tests for `preserve.rs`.

use serde_json::json;

use super::*;
use gpuctl_core::model::contract::labels::VOLCANO_QUEUE;

#[test]
fn newer_defaults_wait_and_explicit_values_stay() {
    let pod = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let mut desired = pod(json!({
        "securityContext": {"runAsUser": 7, "fsGroup": 1000, "fsGroupChangePolicy": "OnRootMismatch"},
        "volumes": [{"name": "shm"}, {"name": "data"}],
        "containers": [{"volumeMounts": [{"name": "shm"}, {"name": "data"}], "env": [{"name": "HF_HOME"}, {"name": "A"}]}],
    }));
    let live = pod(json!({
        "securityContext": {"runAsUser": 7}, "volumes": [{"name": "data"}],
        "containers": [{"volumeMounts": [{"name": "data"}], "env": [{"name": "A"}]}],
    }));
    let waiting = keep_defaults(&mut desired, &live);
    assert_eq!(desired, live);
    assert_eq!(
        waiting,
        [
            "a larger `/dev/shm`",
            "model cache folders",
            "the group of its claims"
        ]
    );
    assert_eq!(keep_defaults(&mut desired, &live), [""; 0]);
}

#[test]
fn a_job_stays_with_the_scheduler_that_placed_it() {
    let job = |template: Value| json!({"spec": {"template": template}});
    let ungrouped = job(json!({"spec": {"schedulerName": "default-scheduler"}}));
    let grouped = job(
        json!({"spec": {"schedulingGroup": {"podGroupName": "x"}, "schedulerName": "default-scheduler"}}),
    );
    let (mut desired, group) = (
        job(json!({"spec": {"schedulingGroup": {"podGroupName": "x"}}})),
        object("podgroups"),
    );
    keep_gang(&mut desired, &ungrouped);
    assert_eq!(desired, job(json!({"spec": {}})));
    assert!(
        !is_still_used(&group, &ungrouped, true)
            && is_still_used(&group, &ungrouped, false)
            && is_still_used(&group, &grouped, true)
    );
    let mut desired = job(json!({"spec": {}}));
    keep_gang(&mut desired, &grouped);
    assert_eq!(
        desired,
        job(json!({"spec": {"schedulingGroup": {"podGroupName": "x"}}}))
    );
    let previous =
        job(json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"schedulerName": "volcano"}}));
    let mut desired = job(
        json!({"metadata": {"annotations": {"a": "b", VOLCANO_QUEUE: "q"}}, "spec": {"schedulerName": "volcano"}}),
    );
    keep_gang(&mut desired, &previous);
    assert_eq!(desired, previous);
}

#[test]
fn ranks_stay_with_the_supervisor_that_started_them() {
    let job = |command: Value, volumes: Value, rule: &str| {
        let pod = json!({"containers": [{"command": command}], "volumes": volumes});
        json!({"spec": {"template": {"spec": pod}, "podFailurePolicy": rule}})
    };
    let volumes = json!([{"name": SUPERVISOR_VOLUME}]);
    let unsupervised = job(json!(["train"]), json!([]), "old");
    let newer = job(json!(["sh", "new", "train"]), volumes.clone(), "new");
    let mut desired = newer.clone();
    assert_eq!(
        keep_supervision(&mut desired, &unsupervised),
        Some("ranks that restart together")
    );
    assert_eq!(desired, unsupervised);
    let older = job(json!(["sh", "old", "train"]), volumes, "old");
    let mut desired = newer.clone();
    assert_eq!(keep_supervision(&mut desired, &older), None);
    assert_eq!(desired, older);
    let mut desired = newer.clone();
    keep_supervision(&mut desired, &newer);
    assert_eq!(desired, newer);
}

fn object(plural: &'static str) -> Object {
    Object {
        body: json!({}),
        plural,
        shared: false,
        kept: false,
    }
}
