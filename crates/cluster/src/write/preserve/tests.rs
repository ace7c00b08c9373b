//! Tests of `preserve.rs`.

use serde_json::json;

use super::*;
use gpuctl_core::model::contract::labels::VOLCANO_QUEUE;

#[test]
fn newer_defaults_wait_and_wishes_stay() {
    let pod = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let mut wanted = pod(json!({
        "securityContext": {"runAsUser": 7, "fsGroup": 1000, "fsGroupChangePolicy": "OnRootMismatch"},
        "volumes": [{"name": "shm"}, {"name": "data"}],
        "containers": [{"volumeMounts": [{"name": "shm"}, {"name": "data"}], "env": [{"name": "HF_HOME"}, {"name": "A"}]}],
    }));
    let live = pod(json!({
        "securityContext": {"runAsUser": 7}, "volumes": [{"name": "data"}],
        "containers": [{"volumeMounts": [{"name": "data"}], "env": [{"name": "A"}]}],
    }));
    let waiting = keep_defaults(&mut wanted, &live);
    assert_eq!(wanted, live);
    assert_eq!(
        waiting,
        [
            "a larger `/dev/shm`",
            "folders of the model cache",
            "the group of its claims"
        ]
    );
    assert_eq!(keep_defaults(&mut wanted, &live), [""; 0]);
}

#[test]
fn a_job_stays_with_who_placed_it() {
    let job = |template: Value| json!({"spec": {"template": template}});
    let alone = job(json!({"spec": {"schedulerName": "default-scheduler"}}));
    let grouped = job(
        json!({"spec": {"schedulingGroup": {"podGroupName": "x"}, "schedulerName": "default-scheduler"}}),
    );
    let (mut wanted, group) = (
        job(json!({"spec": {"schedulingGroup": {"podGroupName": "x"}}})),
        object("podgroups"),
    );
    keep_gang(&mut wanted, &alone);
    assert_eq!(wanted, job(json!({"spec": {}})));
    assert!(
        !is_still_used(&group, &alone, true)
            && is_still_used(&group, &alone, false)
            && is_still_used(&group, &grouped, true)
    );
    let mut wanted = job(json!({"spec": {}}));
    keep_gang(&mut wanted, &grouped);
    assert_eq!(
        wanted,
        job(json!({"spec": {"schedulingGroup": {"podGroupName": "x"}}}))
    );
    let before =
        job(json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"schedulerName": "volcano"}}));
    let mut wanted = job(
        json!({"metadata": {"annotations": {"a": "b", VOLCANO_QUEUE: "q"}}, "spec": {"schedulerName": "volcano"}}),
    );
    keep_gang(&mut wanted, &before);
    assert_eq!(wanted, before);
}

#[test]
fn ranks_stay_with_the_supervisor_that_started_them() {
    let job = |command: Value, volumes: Value, rule: &str| {
        let pod = json!({"containers": [{"command": command}], "volumes": volumes});
        json!({"spec": {"template": {"spec": pod}, "podFailurePolicy": rule}})
    };
    let with = json!([{"name": SUPERVISOR_VOLUME}]);
    let plain = job(json!(["train"]), json!([]), "old");
    let newer = job(json!(["sh", "new", "train"]), with.clone(), "new");
    let mut wanted = newer.clone();
    assert_eq!(
        keep_supervision(&mut wanted, &plain),
        Some("ranks that restart together")
    );
    assert_eq!(wanted, plain);
    let older = job(json!(["sh", "old", "train"]), with, "old");
    let mut wanted = newer.clone();
    assert_eq!(keep_supervision(&mut wanted, &older), None);
    assert_eq!(wanted, older);
    let mut wanted = newer.clone();
    keep_supervision(&mut wanted, &newer);
    assert_eq!(wanted, newer);
}

fn object(plural: &'static str) -> Object {
    Object {
        body: json!({}),
        plural,
        shared: false,
        kept: false,
    }
}
