//! Explains which resource is short, which pods hold it, and with which smaller request the pod
//! would fit.

use std::collections::BTreeMap;

use super::answer::{Cause, Evidence, HolderTime};
use super::candidates::{CandidateNode, CountedObstacle};
use super::facts::{Facts, PendingPod};
use super::free_devices::{FreeDevices, devices};
use super::nodes::node_obstacles;
use super::refused::set;
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::counting::capacity::{Amounts, lacking, pods_held};
use gpuctl_core::model::counting::device_claims::device_class;
use gpuctl_core::model::counting::victims::victims;
use gpuctl_core::model::facts::resource::is_device;
use gpuctl_core::model::values::quantity;

/// Maximum number of holders and nodes in one cause.
const NAMED: usize = 3;

/// Builds the cause for a shortage of GPUs: all nodes are full, or the free GPUs are on different
/// nodes.
pub(super) fn gpus(
    facts: &Facts<'_>,
    pending: &PendingPod,
    on: &[&CandidateNode<'_>],
    candidates: &[&CandidateNode<'_>],
    capacity: &ClusterCapacity,
) -> Cause {
    let free = FreeDevices::count(pending, on);
    let word = if free.are_fragmented(pending) {
        "fragmented"
    } else {
        "insufficient-gpu"
    };
    let cause = Cause::new(word, free.describe(facts, pending, on), "inventory");
    let cause = with_holders(facts, pending, on, capacity, cause);
    let mut cause = match with_fewer(facts, pending, &free, candidates) {
        Some((text, command)) => cause.proven(text, Some(command)),
        None => cause,
    };
    if let Some(lower) = lower(pending, on, capacity) {
        let text = "ask their owners to pause them, or use a PriorityClass that preempts";
        cause = cause
            .and(lower, "inventory")
            .helps(text, Some("kubectl get priorityclasses".to_owned()));
    }
    match elsewhere(facts, pending, capacity) {
        Some((text, command)) => cause.proven(text, Some(command)),
        None if free.are_fragmented(pending) => cause.helps(
            "see which pods to move",
            Some(format!("gpuctl free --slots {}", free.wanted)),
        ),
        None => cause,
    }
}

/// Adds the first nodes and the holders of their GPUs as evidence.
fn with_holders(
    facts: &Facts<'_>,
    pending: &PendingPod,
    on: &[&CandidateNode<'_>],
    capacity: &ClusterCapacity,
    mut cause: Cause,
) -> Cause {
    for candidate in on.iter().take(NAMED) {
        let text = format!(
            "{}: {} of {} free",
            candidate.node.name,
            devices(candidate.free, pending),
            devices(&candidate.node.now(), pending)
        );
        cause.evidence.push(Evidence {
            text,
            seen_in: "inventory",
            at: None,
        });
    }
    let holders = capacity.holders(on.iter().map(|candidate| candidate.name()));
    cause.holders = holders
        .into_iter()
        .take(NAMED)
        .map(|(name, gpus)| holder(facts, name, gpus))
        .collect();
    let first = cause
        .holders
        .first()
        .and_then(|holder| Some((holder.name.clone(), holder.ends_by?)));
    match first {
        Some((name, time)) => cause.helps(
            format!(
                "wait for {name}, which must end by {}",
                time.round(jiff::Unit::Minute).unwrap_or(time)
            ),
            None,
        ),
        None => cause,
    }
}

/// Suggests the largest number of GPUs with which the pod would fit now, with the command.
fn with_fewer(
    facts: &Facts<'_>,
    pending: &PendingPod,
    free: &FreeDevices,
    candidates: &[&CandidateNode<'_>],
) -> Option<(String, String)> {
    let largest = free.most;
    if largest <= 0 || largest >= free.wanted || pending.together > 1 {
        return None;
    }
    let smaller: Amounts = pending
        .requests
        .iter()
        .map(|(resource, amount)| {
            let amount = if is_device(resource) {
                largest * 1000
            } else {
                *amount
            };
            (resource.clone(), amount)
        })
        .collect();
    let fits = candidates
        .iter()
        .filter(|candidate| {
            node_obstacles(&pending.rules, &smaller, candidate.node, candidate.free).is_empty()
        })
        .count();
    let nodes = match fits {
        0 => return None,
        1 => "1 node".to_owned(),
        several => format!("{several} nodes"),
    };
    Some((
        format!("with gpu: {largest}, it fits on {nodes} now"),
        set(facts, &format!("resources.gpu={largest}")),
    ))
}

/// Suggests pods of lower priority that hold enough, if the pod's PriorityClass does not preempt.
/// Otherwise the scheduler preempts them.
fn lower(
    pending: &PendingPod,
    on: &[&CandidateNode<'_>],
    capacity: &ClusterCapacity,
) -> Option<String> {
    if pending.rules.preempts() {
        return None;
    }
    let open = on
        .iter()
        .filter(|candidate| candidate.lacks_only_resources());
    let load = open.map(|candidate| {
        (
            candidate.node.name.clone(),
            (
                candidate.free.clone(),
                capacity
                    .placed
                    .get(&candidate.node.name)
                    .cloned()
                    .unwrap_or_default(),
            ),
        )
    });
    let ended = victims(
        &pending.requests,
        pending.rules.priority(),
        pending.together,
        load.collect(),
    )?;
    let mut names: Vec<&str> = ended
        .iter()
        .map(|victim| victim.pod.holder.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    let more = if names.len() > NAMED {
        format!(" and {} more", names.len() - NAMED)
    } else {
        String::new()
    };
    let first = names
        .iter()
        .take(NAMED)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "lower-priority pods hold enough: {first}{more}, but its PriorityClass does not preempt"
        )
    })
}

fn holder(facts: &Facts<'_>, name: String, gpus: u64) -> HolderTime {
    let timed = facts.holders.iter().find(|holder| holder.name == name);
    HolderTime {
        since: timed.and_then(|holder| holder.since),
        ends_by: timed.and_then(|holder| holder.ends_by),
        name,
        gpus,
    }
}

/// Suggests another pool with enough free capacity for all pods.
fn elsewhere(
    facts: &Facts<'_>,
    pending: &PendingPod,
    capacity: &ClusterCapacity,
) -> Option<(String, String)> {
    facts.job.pool.as_ref()?;
    let anywhere = pending.rules.without_labels(|key| key == POOL_LABEL);
    let mut pools: BTreeMap<&str, (u64, i128)> = BTreeMap::new();
    for node in facts.listed()? {
        let (Some(pool), Some(free)) = (node.pool(), capacity.free.get(&node.name)) else {
            continue;
        };
        if facts.job.pool.as_deref() == Some(pool)
            || !node_obstacles(&anywhere, &pending.requests, node, free).is_empty()
        {
            continue;
        }
        let in_pool = pools.entry(pool).or_default();
        in_pool.0 += pods_held(
            &pending.requests,
            &BTreeMap::from([(node.name.clone(), free.clone())]),
        );
        in_pool.1 += devices(free, pending);
    }
    let (pool, (_, free)) = pools
        .into_iter()
        .find(|(_, (takes, _))| *takes >= pending.together)?;
    Some((
        format!("pool {pool} has {free} free, and it fits there now"),
        set(facts, &format!("resources.pool={pool}")),
    ))
}

/// Builds the cause for a shortage of CPU, memory, disk, pod slots or devices other than GPUs.
pub(super) fn machine(
    facts: &Facts<'_>,
    pending: &PendingPod,
    obstacle: &CountedObstacle,
    on: &[&CandidateNode<'_>],
    capacity: &ClusterCapacity,
) -> Cause {
    let resource = obstacle.detail.as_deref().unwrap_or("cpu");
    let requested = pending.requests.get(resource).copied().unwrap_or(0);
    let free = |candidate: &&&CandidateNode<'_>| candidate.free.get(resource).copied().unwrap_or(0);
    let best = on.iter().max_by_key(free);
    let largest = best.map_or(0, |candidate| free(&candidate)).max(0);
    let place = best.map_or(String::new(), |candidate| {
        format!(" ({})", candidate.node.name)
    });
    let text = format!(
        "{} of {resource} on one node; at most {} are free{place}",
        amount(resource, requested),
        amount(resource, largest)
    );
    let mut cause = Cause::new(obstacle.word, text, "inventory");
    if let Some((name, held)) =
        capacity.most_of(resource, on.iter().map(|candidate| candidate.name()))
    {
        cause = cause.and(
            format!("{name} requests {} of it there", amount(resource, held)),
            "inventory",
        );
    }
    let field = match resource {
        "cpu" => "resources.cpu",
        "memory" => "resources.memory",
        _ => return cause,
    };
    let smaller: Amounts = pending
        .requests
        .iter()
        .map(|(key, amount)| (key.clone(), if key == resource { largest } else { *amount }))
        .collect();
    let fits = on.iter().any(|candidate| {
        lacking(&smaller, candidate.free).is_empty() && candidate.obstacles.len() == 1
    });
    if fits && largest > 0 {
        let value = amount(
            resource,
            if resource == "cpu" {
                // Round down to whole CPUs, so that the suggested request fits.
                largest / 1000 * 1000
            } else {
                largest
            },
        );
        if value != "0" {
            return cause.proven(
                format!("with {resource}: {value}, it fits now"),
                Some(set(facts, &format!("{field}={value}"))),
            );
        }
    }
    cause
}

/// Formats an amount as in manifests, such as `16`, `500m` or `64Gi`.
fn amount(resource: &str, milli: i128) -> String {
    let units = u64::try_from(milli / 1000).unwrap_or(0);
    match resource {
        "memory" | "ephemeral-storage" => quantity::binary(units),
        _ if milli % 1000 != 0 => format!("{milli}m"),
        _ => units.to_string(),
    }
}

/// Builds the cause for a pod that is too large for every node with its labels.
pub(super) fn too_large(
    facts: &Facts<'_>,
    pending: &PendingPod,
    labelled: &[&CandidateNode<'_>],
) -> Cause {
    let short = labelled
        .iter()
        .flat_map(|candidate| lacking(&pending.requests, &candidate.node.most()))
        .next()
        .unwrap_or_default();
    let largest = labelled
        .iter()
        .map(|candidate| candidate.node.most().get(&short).copied().unwrap_or(0))
        .max()
        .unwrap_or(0);
    let requested = pending.requests.get(&short).copied().unwrap_or(0);
    if device_class(&short).is_some() && largest == 0 {
        return super::devices::shortage(facts, pending, &short, labelled);
    }
    let subject =
        device_class(&short).map_or_else(|| short.clone(), |class| format!("device class {class}"));
    let evidence = format!(
        "{} of {subject} per pod, but the largest eligible node has {}",
        amount(&short, requested),
        amount(&short, largest)
    );
    let cause = Cause {
        nodes: Some(labelled.len() as u64),
        ..Cause::new("never-fits", evidence, "inventory")
    };
    match short.as_str() {
        short if (is_device(short) || device_class(short).is_some()) && largest > 0 => {
            let text = format!("request {} per node and use more nodes", largest / 1000);
            cause.helps(
                text,
                Some(set(facts, &format!("resources.gpu={}", largest / 1000))),
            )
        }
        "cpu" | "memory" => cause.helps(
            "request less",
            Some(set(
                facts,
                &format!("resources.{short}={}", amount(&short, largest)),
            )),
        ),
        _ => cause,
    }
}
