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
