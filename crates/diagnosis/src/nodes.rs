//! Compares one pod with one node as the scheduler does, and names everything that keeps the pod
//! off it, not only the first.

use gpuctl_core::model::Node;
use gpuctl_core::model::counting::capacity::{Amounts, lacking};
use gpuctl_core::model::counting::device_demand::device_class;
use gpuctl_core::model::facts::gpu::is_device;
use gpuctl_manifest::render::PodRules;

/// A word of causes, and the label, the taint or the resource.
pub(crate) type NodeObstacle = (&'static str, Option<String>);

/// Taints by which Kubernetes says that a node is not well.
const FAULTS: [&str; 6] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
];

/// Returns what keeps a pod off a node of which so much is free.
pub fn keeps_off(
    rules: &PodRules,
    requests: &Amounts,
    node: &Node,
    free: &Amounts,
) -> Vec<NodeObstacle> {
    let mut found = Vec::new();
    found.extend(
        rules
            .unmet_label(node)
            .map(|label| ("node-selector", Some(label))),
    );
    found.extend(
        rules
            .untolerated_taint(node)
            .map(|taint| (of_taint(&taint.key), Some(taint.key.clone()))),
    );
    if !node.schedulable {
        found.push(("cordoned", None));
    }
    found.extend(
        lacking(requests, free)
            .into_iter()
            .map(|resource| (insufficient(&resource), Some(resource))),
    );
    found
}

/// Returns the cause that a taint of this key is.
pub(crate) fn of_taint(key: &str) -> &'static str {
    if FAULTS.contains(&key) {
        "node-faulty"
    } else {
        "taint"
    }
}

/// Returns the cause that too little of a resource is.
pub fn insufficient(resource: &str) -> &'static str {
    match resource {
        "cpu" => "insufficient-cpu",
        "memory" => "insufficient-memory",
        "ephemeral-storage" => "insufficient-storage",
        "pods" => "insufficient-pods",
        resource if is_device(resource) => "insufficient-gpu",
        resource if device_class(resource).is_some() => "device-claim",
        _ => "insufficient-device",
    }
}
