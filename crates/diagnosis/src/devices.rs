//! Explains why a pod cannot get the devices that it claims (dynamic resource allocation): the
//! class is missing, no driver offers such devices, other pods hold them, or they are tainted.
//! `model/counting/device_demand.rs` evaluates the selectors.

use super::answer::Cause;
use super::candidates::CandidateNode;
use super::facts::{Facts, PendingPod};
use super::refused::set;
use gpuctl_core::model::counting::device_demand::{ClassCapacity, DeviceClaims, device_class};

/// The cause of a claim that refers to an object that does not exist.
pub(super) fn missing(facts: &Facts<'_>) -> Option<Cause> {
    match &facts.devices {
        DeviceClaims::ClassMissing(class) => {
            let told = format!("device class {class}, which it claims, does not exist");
            let cause = Cause::new("device-claim", told, "inventory");
            Some(cause.helps(
                "use an existing class",
                Some("kubectl get deviceclasses".to_owned()),
            ))
        }
        DeviceClaims::TemplateMissing(template) => {
            let namespace = &facts.job.namespace;
            let told = format!("ResourceClaimTemplate {template} of its claims does not exist");
            let look = format!("kubectl get resourceclaimtemplates -n {namespace}");
            Some(
                Cause::new("device-claim", told, "inventory")
                    .helps("list the existing templates", Some(look)),
            )
        }
        DeviceClaims::None | DeviceClaims::NotEvaluated(_) | DeviceClaims::Compared(_) => None,
    }
}

/// The cause of a claim for devices that no driver offers.
fn none_offered(each: &str, room: &ClassCapacity) -> Option<Cause> {
    let what = format!("{each}; no eligible node offers one");
    (room.all == 0).then(|| {
        Cause::new("device-claim", what, "inventory").helps(
            "list the offered devices",
            Some("kubectl get resourceslices".to_owned()),
        )
    })
}

/// The cause of a claim for which a node has enough devices, but too many of them are tainted.
fn tainted(each: &str, node: &str, room: &ClassCapacity, wanted: u64) -> Option<Cause> {
    let taint = room
        .taint
        .as_ref()
        .filter(|_| room.free < wanted && room.free + room.tainted >= wanted)?;
    let (free, tainted) = (room.free, room.tainted);
    let what = format!(
        "{each}; {node} has {free} free, and {tainted} more are tainted {taint}, which its claim does not tolerate"
    );
    let look = format!("kubectl get resourceslices --field-selector spec.nodeName={node} -o yaml");
    Some(Cause::new("device-taint", what, "inventory").helps(
        "have the devices repaired, or tolerate the taint in the claim",
        Some(look),
    ))
}

/// The cause of a claim for more devices of a class than any of these nodes has free.
pub(super) fn shortage(
    facts: &Facts<'_>,
    pending: &PendingPod,
    resource: &str,
    on: &[&CandidateNode<'_>],
) -> Cause {
    let class = device_class(resource).unwrap_or(resource);
    let wanted =
        u64::try_from(pending.requests.get(resource).copied().unwrap_or(0) / 1000).unwrap_or(0);
    let of = |one: &&&CandidateNode<'_>| {
        facts
            .devices
            .on_node(class, &one.node.name)
            .unwrap_or_default()
    };
    let best = on
        .iter()
        .max_by_key(|one| (of(one).free + of(one).tainted, of(one).free));
    let (node, room) = best.map_or(("", ClassCapacity::default()), |one| {
        (one.node.name.as_str(), of(&one))
    });
    let nodes = Some(on.len() as u64);
    let each = format!("{wanted} of device class {class} on one node");
    if let Some(cause) = none_offered(&each, &room).or_else(|| tainted(&each, node, &room, wanted))
    {
        return Cause { nodes, ..cause };
    }
    let told = format!("{each}; {node} has {} of {} free", room.free, room.all);
    let cause = Cause {
        nodes,
        ..Cause::new("device-claim", told, "inventory")
    };
    let alone = |one: &&CandidateNode<'_>| {
        one.obstacles.len() == 1
            && facts
                .devices
                .on_node(class, &one.node.name)
                .is_some_and(|other| other.free >= room.free)
    };
    if room.free == 0 || pending.together > 1 || !on.iter().any(alone) {
        return cause;
    }
    let command = set(facts, &format!("resources.gpu={}", room.free));
    cause.proven(
        format!("with gpu: {} it fits now", room.free),
        Some(command),
    )
}
