//! Explains why a pod cannot get the devices that it claims (dynamic resource allocation): the
//! class is missing, no driver offers such devices, other pods hold them, or they are tainted.
//! `model/counting/device_claims.rs` compares them. Also names unhealthy devices of running pods.

use super::answer::Cause;
use super::candidates::CandidateNode;
use super::facts::{Facts, PendingPod};
use super::refused::set;
use gpuctl_core::model::Pod;
use gpuctl_core::model::counting::device_claims::{ClassCapacity, DeviceClaims, device_class};
use gpuctl_core::model::facts::state::pod_name;

/// Returns the cause for a claim that refers to a missing object.
pub(super) fn missing(facts: &Facts<'_>) -> Option<Cause> {
    match &facts.devices {
        DeviceClaims::ClassMissing(class) => {
            let text = format!("device class {class}, which it claims, does not exist");
            let cause = Cause::new("device-claim", text, "inventory");
            Some(cause.helps(
                "use an existing class",
                Some("kubectl get deviceclasses".to_owned()),
            ))
        }
        DeviceClaims::TemplateMissing(template) => {
            let namespace = &facts.job.namespace;
            let text = format!("ResourceClaimTemplate {template}, which it uses, does not exist");
            let list = format!("kubectl get resourceclaimtemplates -n {namespace}");
            Some(
                Cause::new("device-claim", text, "inventory")
                    .helps("list the existing templates", Some(list)),
            )
        }
        DeviceClaims::None | DeviceClaims::NotEvaluated(_) | DeviceClaims::Compared(_) => None,
    }
}

/// The cause of a pod that uses a device which the kubelet reports as unhealthy (KEP-4680).
pub(super) fn unhealthy(facts: &Facts<'_>, pod: &Pod) -> Option<Cause> {
    let mut devices = pod
        .containers
        .iter()
        .flat_map(|container| &container.unhealthy);
    let device = devices.next()?;
    let others = match devices.count() {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let text = format!(
        "{} uses {device}{others}, which the node reports as unhealthy",
        pod_name(pod)
    );
    let elsewhere = pod
        .node
        .as_ref()
        .map(|node| set(facts, &format!("resources.exclude_nodes={node}")));
    let cause = Cause::new("gpu-fault", text, "pod");
    Some(cause.helps("exclude the node, and tell its administrator", elsewhere))
}

/// The cause of a claim for devices that no driver offers.
fn none_offered(request: &str, capacity: &ClassCapacity) -> Option<Cause> {
    let text = format!("{request}; no eligible node offers one");
    (capacity.all == 0).then(|| {
        Cause::new("device-claim", text, "inventory").helps(
            "list the offered devices",
            Some("kubectl get resourceslices".to_owned()),
        )
    })
}

/// Builds the cause for a claim that a node could satisfy if fewer of its devices were tainted.
fn tainted(request: &str, node: &str, capacity: &ClassCapacity, count: u64) -> Option<Cause> {
    let taint = capacity
        .taint
        .as_ref()
        .filter(|_| capacity.free < count && capacity.free + capacity.tainted >= count)?;
    let (free, tainted) = (capacity.free, capacity.tainted);
    let text = format!(
        "{request}; {node} has {free} free, and {tainted} more have the taint {taint}, which its claim does not tolerate"
    );
    let command =
        format!("kubectl get resourceslices --field-selector spec.nodeName={node} -o yaml");
    Some(Cause::new("device-taint", text, "inventory").helps(
        "have the devices repaired, or tolerate the taint in the claim",
        Some(command),
    ))
}

/// Builds the cause for a claim for more devices of a class than any node has free.
pub(super) fn shortage(
    facts: &Facts<'_>,
    pending: &PendingPod,
    resource: &str,
    on: &[&CandidateNode<'_>],
) -> Cause {
    let class = device_class(resource).unwrap_or(resource);
    let count =
        u64::try_from(pending.requests.get(resource).copied().unwrap_or(0) / 1000).unwrap_or(0);
    let capacity_on = |candidate: &&&CandidateNode<'_>| {
        facts
            .devices
            .on_node(class, &candidate.node.name)
            .unwrap_or_default()
    };
    let best = on.iter().max_by_key(|candidate| {
        (
            capacity_on(candidate).free + capacity_on(candidate).tainted,
            capacity_on(candidate).free,
        )
    });
    let (node, capacity) = best.map_or(("", ClassCapacity::default()), |candidate| {
        (candidate.node.name.as_str(), capacity_on(&candidate))
    });
    let nodes = Some(on.len() as u64);
    let request = if facts.devices.counts_pods(class) {
        format!("all devices of its claims ({class}) on one node")
    } else {
        format!("{count} of device class {class} on one node")
    };
    if let Some(cause) =
        none_offered(&request, &capacity).or_else(|| tainted(&request, node, &capacity, count))
    {
        return Cause { nodes, ..cause };
    }
    let text = match facts.devices.counts_pods(class) {
        true => format!("{request}; other claims hold devices that it needs"),
        false => format!(
            "{request}; {node} has {} of {} free",
            capacity.free, capacity.all
        ),
    };
    let cause = Cause {
        nodes,
        ..Cause::new("device-claim", text, "inventory")
    };
    let alone = |candidate: &&CandidateNode<'_>| {
        candidate.obstacles.len() == 1
            && facts
                .devices
                .on_node(class, &candidate.node.name)
                .is_some_and(|largest| largest.free >= capacity.free)
    };
    if capacity.free == 0 || pending.together > 1 || !on.iter().any(alone) {
        return cause;
    }
    let command = set(facts, &format!("resources.gpu={}", capacity.free));
    cause.proven(
        format!("with gpu: {}, it fits now", capacity.free),
        Some(command),
    )
}
