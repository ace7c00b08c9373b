use super::*;

fn pod_set(text: &str) -> String {
    format!("couldn't assign flavors to pod set main: {text}")
}

/// The reasons of apis/kueue/v1beta2 decide without the message.
#[test]
fn reasons_take_precedence_over_messages() {
    let words = [
        ("TopologyPlacementFailed", "queue-topology"),
        ("NoMatchingFlavor", "queue-flavor"),
        ("Misconfigured", "queue-misconfigured"),
        ("WaitingForPodsReady", "queue-pods-ready"),
        ("WaitingForPreemptedWorkloads", "preemption-pending"),
        ("Waiting", "queue-pods-ready"),
        ("WaitingForQuota", "queue-quota"),
        ("ExceedsMaxQuota", "never-fits"),
        ("Suspended", "queue-inactive"),
        ("PendingEvaluation", "queue-evaluating"),
        ("AdmissionGated", "queue-gated"),
        ("Pending", "queue-other"),
        ("Inadmissible", "queue-other"),
        ("SomethingNew", "queue-other"),
    ];
    for (reason, word) in words {
        assert_eq!(causes_of(reason, "unknown words"), [word], "{reason}");
    }
    let quota = pod_set("insufficient unused quota for cpu in flavor a, 3 more needed");
    assert_eq!(
        causes_of("TopologyPlacementFailed", &quota),
        ["queue-topology"]
    );
    assert_eq!(causes_of("NoMatchingFlavor", &quota), ["queue-flavor"]);
}

/// kubernetes-sigs/kueue #5039, #9048, #10824, #6868, #3158, #5711 and #7646, as Kueue 0.18 and
/// earlier write them, with the reason `Pending`.
#[test]
fn messages_explain_pending_workloads() {
    let words = |text: &str| causes_of("Pending", &pod_set(text));
    let excluded = "topology \"default\" doesn't allow to fit any of 2 pod(s). Total nodes: 4; \
                    excluded: resource \"cpu\": 3, taint \"nvidia.com/gpu:NoSchedule\": 1";
    assert_eq!(words(excluded), ["queue-topology"]);
    let slices = "topology \"rack\" allows to fit only 1 out of 4 slice(s)";
    assert_eq!(words(slices), ["queue-topology"]);
    let level = "no topology domains at level: kubernetes.io/hostname";
    assert_eq!(words(level), ["queue-topology"]);
    let unsupported = "Flavor \"default\" does not support TopologyAwareScheduling";
    assert_eq!(words(unsupported), ["queue-topology"]);
    let taint = "untolerated taint {gpu-team blue NoSchedule <nil>} in flavor a100";
    assert_eq!(words(taint), ["taint"]);
    let affinity = "flavor a100 doesn't match node affinity";
    assert_eq!(words(affinity), ["node-selector"]);
    assert_eq!(words("flavor a100 not found"), ["queue-flavor-missing"]);
    assert_eq!(
        words("resource cpu unavailable in ClusterQueue"),
        ["queue-resource"]
    );
    let quota = "insufficient unused quota for nvidia.com/gpu in flavor h100, 3 more needed";
    assert_eq!(words(quota), ["queue-quota"]);
    // A second flavor that never fits does not matter while the first one may.
    assert_eq!(words(&format!("{affinity}, {quota}")), ["queue-quota"]);
    assert_eq!(words(&format!("{quota}, {taint}")), ["queue-quota"]);
    assert_eq!(
        words(&format!("{affinity}, {excluded}")),
        ["queue-topology"]
    );
    assert_eq!(
        words(&format!("flavor h100 doesn't match node affinity, {taint}")),
        ["taint", "node-selector"]
    );
    // Both are reasons of the same flavor.
    let large = "insufficient quota for cpu in flavor h100, previously considered podsets requests \
                 (0) + current podset request (16) > maximum capacity (8)";
    assert_eq!(words(&format!("{large}, {quota}")), ["never-fits"]);
    let old = "insufficient quota for cpu in flavor h100, request > maximum capacity (16 > 8)";
    assert_eq!(words(old), ["never-fits"]);
    // No flavor has the resource.
    let uncovered = "resource rdma/hca unavailable in ClusterQueue";
    assert_eq!(words(&format!("{quota}, {uncovered}")), ["queue-resource"]);
    assert_eq!(words("words of a new version"), ["queue-other"]);
    // All pod sets must fit.
    let two = format!(
        "{}; couldn't assign flavors to pod set worker: {affinity}",
        pod_set(quota)
    );
    assert_eq!(causes_of("Pending", &two), ["node-selector"]);
}

#[test]
fn messages_explain_inadmissible_workloads() {
    let cases = [
        ("LocalQueue nosuch doesn't exist", "queue-missing"),
        ("LocalQueue  doesn't exist", "queue-missing"),
        ("LocalQueue team is terminating or missing", "queue-missing"),
        ("ClusterQueue gpus not found", "queue-missing"),
        ("ClusterQueue gpus is inactive", "queue-inactive"),
        ("LocalQueue team is stopped", "queue-inactive"),
        (
            "Workload namespace doesn't match ClusterQueue selector",
            "queue-namespace",
        ),
        (
            "waiting for all admitted workloads to be in PodsReady condition",
            "queue-pods-ready",
        ),
        ("Workload didn't fit in the remaining quota", "queue-quota"),
        ("The workload is deactivated", "queue-deactivated"),
        // Fragments of known messages are not evidence.
        (
            "the annotation says quota not found and is stopped",
            "queue-other",
        ),
    ];
    for (message, word) in cases {
        assert_eq!(causes_of("Inadmissible", message), [word], "{message}");
    }
}

#[test]
fn preemptions_end_the_wait() {
    let quota = pod_set("insufficient unused quota for cpu in flavor a, 3 more needed");
    let pending = format!("{quota}. Pending the preemption of 2 workload(s)");
    assert_eq!(causes_of("Pending", &pending), ["preemption-pending"]);
    let failed = format!("{quota}. Preempting 1 workload(s) failed, will retry.");
    assert_eq!(causes_of("Pending", &failed), ["queue-quota"]);
}

#[test]
fn evictions_have_causes() {
    let cases = [
        ("Preempted", Some("preempted")),
        ("PodsReadyTimeout", Some("queue-pods-timeout")),
        ("AdmissionCheck", Some("queue-checks")),
        ("ClusterQueueStopped", Some("queue-inactive")),
        ("LocalQueueStopped", Some("queue-inactive")),
        ("NodeFailures", Some("node-lost")),
        ("Deactivated", Some("queue-deactivated")),
        (
            "DeactivatedDueToRequeuingLimitExceeded",
            Some("queue-deactivated"),
        ),
        ("Pending", None),
    ];
    for (reason, word) in cases {
        assert_eq!(eviction_word(reason), word, "{reason}");
    }
}

#[test]
fn topology_arithmetic_is_parsed() {
    let message = "couldn't assign flavors to pod set main: topology \"rack\" allows to fit only 2 \
                   out of 16 pod(s). Total nodes: 207; excluded: resource \"nvidia.com/gpu\": 190, \
                   taint \"a:NoSchedule\": 15";
    assert_eq!(
        topology_fit(message),
        Some(TopologyFit {
            topology: "rack",
            fit: 2,
            wanted: 16,
            unit: "pod",
            nodes: Some(207),
            excluded: vec![
                ("resource \"nvidia.com/gpu\"", 190),
                ("taint \"a:NoSchedule\"", 15)
            ],
        })
    );
    let none = topology_fit("topology \"default\" doesn't allow to fit any of 4 slice(s)").unwrap();
    assert_eq!(
        (none.fit, none.wanted, none.unit, none.nodes),
        (0, 4, "slice", None)
    );
    assert_eq!(topology_fit("no topology domains at level: rack"), None);
}
