//! Maps the classes of the corpus to the causes that `gpuctl why` may name for them. A new cause
//! needs one line.

use std::collections::BTreeSet;

/// Classes, each with the acceptable causes.
const CLASSES: &[(&str, &[&str])] = &[
    // Queues
    ("queue-quota", &["queue-quota"]),
    ("queue-position", &["queue-position"]),
    ("queue-inactive", &["queue-inactive"]),
    ("queue-missing", &["queue-missing"]),
    ("queue-checks", &["queue-checks"]),
    ("queue-topology", &["queue-topology"]),
    ("queue-flavor", &["queue-flavor"]),
    ("queue-resource", &["queue-resource"]),
    ("queue-namespace", &["queue-namespace"]),
    ("queue-preempted", &["queue-preempted", "preempted"]),
    ("queue-pods-ready", &["queue-pods-ready", "queue-evicted"]),
    ("too-large", &["never-fits"]),
    ("gang", &["gang-incomplete"]),
    // Scheduler
    ("gpu", &["insufficient-gpu"]),
    ("cpu", &["insufficient-cpu"]),
    ("memory", &["insufficient-memory"]),
    ("disk-space", &["insufficient-storage"]),
    ("pod-limit", &["insufficient-pods"]),
    ("device", &["insufficient-device"]),
    ("taint", &["taint"]),
    ("node-label", &["node-selector", "gpu-type-absent"]),
    ("cordoned", &["cordoned"]),
    ("node-fault", &["node-faulty"]),
    ("volume-node", &["volume-topology"]),
    ("volume-limit", &["volume-limit"]),
    ("claim-pending", &["claim-pending"]),
    ("claim-missing", &["claim-missing"]),
    ("claim-class", &["storage-class-missing"]),
    ("spread", &["topology-spread"]),
    ("affinity", &["pod-affinity"]),
    ("host-port", &["host-port"]),
    ("device-claim", &["device-claim"]),
    ("device-taint", &["device-taint"]),
    ("gate", &["scheduling-gate"]),
    ("preempting", &["preemption-pending"]),
    ("volume-in-use", &["volume-in-use"]),
    // Autoscalers
    ("scaling", &["node-starting"]),
    ("cannot-scale", &["autoscaler-waits", "autoscaler-refused"]),
    ("no-such-node", &["autoscaler-refused"]),
    // Refused
    ("quota", &["quota"]),
    ("limit-range", &["limit-range"]),
    ("pod-security", &["pod-security"]),
    ("webhook-denied", &["webhook-denied"]),
    ("webhook-down", &["webhook-down"]),
    ("policy", &["policy-denied", "webhook-denied"]),
    ("service-account", &["service-account-missing"]),
    ("priority-class", &["priority-class-missing"]),
    ("namespace-deleted", &["namespace-terminating"]),
    ("refused", &["pods-refused"]),
    // Images
    ("image-missing", &["image-missing"]),
    ("image-auth", &["image-auth"]),
    ("image-missing-or-auth", &["image-auth", "image-missing"]),
    ("rate-limit", &["image-rate-limit"]),
    ("registry-down", &["registry-unreachable"]),
    ("image-platform", &["image-platform"]),
    ("image-policy", &["image-policy"]),
    ("image-invalid", &["image-missing"]),
    ("image-disk-full", &["image-disk-full"]),
    (
        "image-certificate",
        &["image-certificate", "registry-unreachable"],
    ),
    ("image-pulling", &["image-pulling"]),
    ("image-interrupted", &["image-interrupted"]),
    // Volumes and references
    ("mount", &["mount-failed"]),
    ("secret", &["secret-missing"]),
    ("configmap", &["configmap-missing"]),
    (
        "sandbox",
        &["sandbox-failed", "mount-failed", "start-error"],
    ),
    // Start
    ("start", &["start-error"]),
    ("probe", &["probe-killed", "probe-starting"]),
    ("crash-loop", &["crash-loop"]),
    // Ends
    ("exit", &["exit-code"]),
    ("signal", &["signal"]),
    ("oom", &["oom-container"]),
    ("oom-node", &["oom-node"]),
    ("evicted-disk", &["evicted-disk"]),
    ("evicted-memory", &["evicted-memory"]),
    ("evicted-pids", &["evicted-pids"]),
    ("preempted", &["preempted"]),
    ("node-lost", &["node-lost"]),
    ("drained", &["node-drained"]),
    ("deadline", &["deadline"]),
    ("gpu-fault", &["gpu-fault"]),
    ("retries", &["retries-exhausted"]),
    ("admission", &["admission-failed", "node-rejected"]),
];

/// Returns the acceptable causes of some classes. `other` accepts no cause.
pub fn words(classes: &[String]) -> BTreeSet<&'static str> {
    let causes = |class: &String| {
        let entry = CLASSES.iter().find(|(name, _)| name == class);
        match entry {
            Some((_, causes)) => *causes,
            None => {
                assert_eq!(class, "other", "an unknown class");
                &[]
            }
        }
    };
    classes.iter().flat_map(causes).copied().collect()
}

/// Whether a cause only states its family, or that nothing is known.
pub fn is_other(cause: &str) -> bool {
    cause == "unknown" || cause.ends_with("-other")
}
