//! Scenarios with two causes at once. The cause whose removal helps most must come first.

use serde_json::json;

use super::setup::{GPU, Setup, container, ended, gpus, holder, job, job_with, pod, waiting, with};

pub fn setups() -> Vec<Setup> {
    let new = |title: &str, truth| Setup::new("pairs", title, truth);
    let full = |index| holder(index, &json!({GPU: "8"}));
    let tainted = |index| {
        with(
            gpus(index),
            json!({"spec": {"taints": [{"key": "example.com/reserved", "effect": "NoSchedule"}]}}),
        )
    };
    let cordoned = |index| with(gpus(index), json!({"spec": {"unschedulable": true}}));
    let cpu = |gpus| container(pod(gpus), json!({"resources": {"requests": {"cpu": "16"}}}));
    let busy = |index| holder(index, &json!({"cpu": "90"}));
    vec![
        // Without nodes, `why` reads the counts in the scheduler's message. The scheduler runs its
        // resource filter last.
        new("two full, one cordoned", "insufficient-gpu").nodes([gpus(0), gpus(1), cordoned(2)]).before([full(0), full(1)]).objects([job(1, pod(8))]),
        new("two full, one tainted", "insufficient-gpu").nodes([gpus(0), gpus(1), tainted(2)]).before([full(0), full(1)]).objects([job(1, pod(8))]),
        new("one full, two without CPU", "insufficient-cpu")
            .nodes([gpus(0), gpus(1), gpus(2)])
            .before([full(0), busy(1), busy(2)])
            .objects([job(1, cpu(4))]),
        new("a claim that is missing and full nodes", "claim-missing").nodes([gpus(0)]).before([full(0)]).objects([job(1, super::capacity::mounts(pod(8), "nothing"))]),
        new("a quota and full nodes", "quota")
            .nodes([gpus(0)])
            .before([json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": {"requests.nvidia.com/gpu": "8"}}}), full(0)])
            .objects([job(1, pod(8))]),
        new("one rank lacks an image, another a node", "insufficient-gpu")
            .nodes([gpus(0)])
            .objects([job_with(2, pod(8), waiting("ImagePullBackOff", "Back-off pulling image \"a\": not found"))]),
        new("a tainted node that is full, and one that is only full", "insufficient-gpu")
            .nodes([tainted(0), gpus(1)])
            .before([full(0), full(1)])
            .objects([job(1, pod(8))]),
        new("memory and a later peer", "oom-container").nodes([gpus(0)]).objects([job_with(2, pod(1), ended(137, "OOMKilled", json!({})))]),
    ]
}
