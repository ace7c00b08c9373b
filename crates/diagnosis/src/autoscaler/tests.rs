use super::*;

fn event(reason: &str, message: &str) -> Event {
    Event {
        at: None,
        warning: true,
        reason: reason.to_owned(),
        message: message.to_owned(),
        object: "Pod/t-0".to_owned(),
        count: 1,
        version: 0,
    }
}

/// Azure/AKS #2543, 2i2c-org/infrastructure #2185, karpenter-provider-aws #5578, #5527, #8068,
/// kubernetes-sigs/karpenter #2159 and kubernetes/autoscaler #3869.
#[test]
fn reports_of_autoscalers_are_distinguished() {
    let zone = "Node scale up in zones us-central1-a associated with this pod failed";
    let risk = "Pod is at risk of not being scheduled.";
    let pool = "Failed to schedule pod, incompatible with nodepool \"default\", daemonset \
                overhead={\"cpu\":\"150m\",\"pods\":\"2\"}";
    let cases = [
        (
            "TriggeredScaleUp",
            "pod triggered scale-up: [{gpu 1->2 (max: 8)}]".to_owned(),
            "announced",
        ),
        (
            "Nominated",
            "Pod should schedule on: nodeclaim/default-9k4qz".to_owned(),
            "announced",
        ),
        (
            "FailedScaleUp",
            format!("{zone}: GCE out of resources. {risk}"),
            WAITS,
        ),
        (
            "FailedScaleUp",
            format!("{zone}: GCE quota exceeded. {risk}"),
            REFUSED,
        ),
        (
            "FailedScaleUp",
            format!("{zone}: Internal error. {risk}"),
            WAITS,
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 max node group size reached, 2 node(s) didn't match \
             Pod's node affinity/selector"
                .to_owned(),
            REFUSED,
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 in backoff after failed scale-up".to_owned(),
            WAITS,
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: max cluster cpu, memory limit reached".to_owned(),
            REFUSED,
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 3 node(s) had untolerated taint {a: b}".to_owned(),
            MISMATCH,
        ),
        (
            "FailedScheduling",
            format!(
                "{pool}, no instance type satisfied resources {{\"cpu\":\"4\"}} and requirements"
            ),
            REFUSED,
        ),
        (
            "FailedScheduling",
            "Failed to schedule pod, incompatible with nodepool \"other\"; all available instance \
             types exceed limits for nodepool: \"gpu\""
                .to_owned(),
            REFUSED,
        ),
        (
            "FailedScheduling",
            format!("{pool}, did not tolerate gpu=true:NoSchedule"),
            MISMATCH,
        ),
        (
            "InsufficientCapacityError",
            "with fleet error(s)".to_owned(),
            WAITS,
        ),
        // kube-scheduler's.
        (
            "FailedScheduling",
            "0/3 nodes are available: 3 Insufficient cpu.".to_owned(),
            "none",
        ),
    ];
    for (reason, message, expected) in cases {
        let event = event(reason, &message);
        let word = match report(&event) {
            Some(ScaleUp::Announced(_)) => "announced",
            Some(ScaleUp::Waits(_)) => WAITS,
            Some(ScaleUp::Refused(_)) => REFUSED,
            Some(ScaleUp::NoPool(_)) => MISMATCH,
            None => "none",
        };
        assert_eq!(word, expected, "{reason}: {message}");
    }
}

/// A pod for a pool that is scaled to zero, seen by a user who cannot list nodes.
#[test]
fn missing_nodes_differ_from_nodes_that_cannot_be_added() {
    use crate::tests::{diagnose_pending, pending};
    let selector =
        "0/30 nodes are available: 30 node(s) didn't match Pod's node affinity/selector.";
    let full = "0/30 nodes are available: 30 Insufficient nvidia.com/gpu.";
    let stockout = "Node scale up in zones us-central1-a associated with this pod failed: GCE out \
                    of resources. Pod is at risk of not being scheduled.";
    let words = |message: &str, events: &[Event]| {
        let answer = diagnose_pending(pending(message), events);
        let words: Vec<&str> = answer.causes.iter().map(|cause| cause.word).collect();
        (words, answer.sentence)
    };
    let (causes, sentence) = words(selector, &[event("FailedScaleUp", stockout)]);
    assert_eq!(causes, [WAITS, "node-selector"]);
    assert!(sentence.contains("GCE out of resources"), "{sentence}");
    let maximum = "pod didn't trigger scale-up: 1 max node group size reached, 2 node(s) didn't \
                   match Pod's node affinity/selector";
    let (causes, sentence) = words(selector, &[event("NotTriggerScaleUp", maximum)]);
    assert_eq!(causes, [REFUSED, "node-selector"]);
    assert!(
        sentence.contains("max node group size reached"),
        "{sentence}"
    );
    // No pool has such nodes, so the labels of the pod are wrong.
    let mismatch =
        "pod didn't trigger scale-up: 3 node(s) didn't match Pod's node affinity/selector";
    let (causes, _) = words(selector, &[event("NotTriggerScaleUp", mismatch)]);
    assert_eq!(causes, ["node-selector", REFUSED]);
    // Such nodes exist, and the job waits for them.
    let (causes, _) = words(full, &[event("NotTriggerScaleUp", maximum)]);
    assert_eq!(causes, ["insufficient-gpu", REFUSED]);
    // The newest report counts.
    let announced = event(
        "TriggeredScaleUp",
        "pod triggered scale-up: [{gpu 0->1 (max: 8)}]",
    );
    let (causes, _) = words(selector, &[event("FailedScaleUp", stockout), announced]);
    assert_eq!(causes[0], "node-starting");
}
