//! Compares a pod with a node as the scheduler does, but returns all obstacles instead of the
//! first.

use super::answer::Cause;
use super::facts::Facts;
use gpuctl_core::model::counting::capacity::{Amounts, lacking};
use gpuctl_core::model::counting::device_claims::device_class;
use gpuctl_core::model::facts::resource::{is_device, is_device_share};
use gpuctl_core::model::facts::state::pod_name;
use gpuctl_core::model::{Node, Pod};
use gpuctl_manifest::render::PodRules;

/// The name of a cause, and the label, taint or resource that it is about.
pub(crate) type NodeObstacle = (&'static str, Option<String>);

/// Taints that Kubernetes sets on unhealthy nodes.
const FAULTS: [&str; 6] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
];

/// Lists the obstacles for a pod on a node with these free amounts.
pub fn node_obstacles(
    rules: &PodRules,
    requests: &Amounts,
    node: &Node,
    free: &Amounts,
) -> Vec<NodeObstacle> {
    let mut obstacles = Vec::new();
    obstacles.extend(
        rules
            .unmet_label(node)
            .map(|label| ("node-selector", Some(label))),
    );
    obstacles.extend(
        rules
            .untolerated_taint(node)
            .map(|taint| (taint_word(&taint.key), Some(taint.key.clone()))),
    );
    if !node.schedulable {
        obstacles.push(("cordoned", None));
    }
    obstacles.extend(
        lacking(requests, free)
            .into_iter()
            .map(|resource| (insufficient(&resource), Some(resource))),
    );
    obstacles
}

/// Finds pods that run on nodes without an object. Until the garbage collector deletes such a pod,
/// its status says that it runs. Returns no cause if the user cannot list nodes.
pub(crate) fn gone(facts: &Facts<'_>) -> Vec<Cause> {
    let Some(nodes) = facts.listed() else {
        return Vec::new();
    };
    let cause = |pod: &&Pod| {
        let name = pod.node.as_ref().filter(|_| !pod.ended())?;
        if nodes.iter().any(|node| node.name == *name) {
            return None;
        }
        let text = format!(
            "node {name} of {} no longer exists; the pod is deleted soon",
            pod_name(pod)
        );
        Some(Cause::new("node-lost", text, "inventory"))
    };
    facts.job.current_pods().iter().filter_map(cause).collect()
}

/// Returns the name of the cause for a taint with this key.
pub(crate) fn taint_word(key: &str) -> &'static str {
    if FAULTS.contains(&key) {
        "node-faulty"
    } else {
        "taint"
    }
}

/// Returns the name of the cause for a shortage of this resource.
pub fn insufficient(resource: &str) -> &'static str {
    match resource {
        "cpu" => "insufficient-cpu",
        "memory" => "insufficient-memory",
        "ephemeral-storage" => "insufficient-storage",
        "pods" => "insufficient-pods",
        resource if is_device(resource) || is_device_share(resource) => "insufficient-gpu",
        resource if device_class(resource).is_some() => "device-claim",
        _ => "insufficient-device",
    }
}
