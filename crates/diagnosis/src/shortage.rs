//! Says of which resource there is too little, who holds it, and with how much less the pod would
//! fit now.

use std::collections::BTreeMap;

use super::answer::{Cause, Evidence, HolderTime};
use super::candidates::{CandidateNode, CountedObstacle, is_shortage};
use super::facts::{Facts, PendingPod};
use super::free_devices::{FreeDevices, devices};
use super::nodes::keeps_off;
use super::refused::set;
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::counting::candidates::Room;
use gpuctl_core::model::counting::capacity::{Amounts, lacking, pods_held};
use gpuctl_core::model::counting::device_demand::device_class;
use gpuctl_core::model::counting::victims::victims;
use gpuctl_core::model::facts::gpu::is_device;
use gpuctl_core::model::values::quantity;

/// Holders and nodes that one cause names.
const NAMED: usize = 3;

/// Returns the cause of too few GPUs: full nodes, or enough in all and not on one.
pub(super) fn gpus(
    facts: &Facts<'_>,
    pending: &PendingPod,
    on: &[&CandidateNode<'_>],
    candidates: &[&CandidateNode<'_>],
    room: &Room,
) -> Cause {
    let free = FreeDevices::count(pending, on);
    let word = if free.are_fragmented(pending) {
        "fragmented"
    } else {
        "insufficient-gpu"
    };
    let cause = Cause::new(word, free.in_words(facts, pending, on), "inventory");
    let cause = with_holders(facts, pending, on, room, cause);
    let mut cause = match with_fewer(facts, pending, &free, candidates) {
        Some((text, command)) => cause.proven(text, Some(command)),
        None => cause,
    };
    if let Some(lower) = lower(pending, on, room) {
        let text = "ask whoever runs them to pause them, or take a PriorityClass that preempts";
        cause = cause
            .and(lower, "inventory")
            .helps(text, Some("kubectl get priorityclasses".to_owned()));
    }
    match elsewhere(facts, pending, room) {
        Some((text, command)) => cause.proven(text, Some(command)),
        None if free.are_fragmented(pending) => cause.helps(
            "see which pods to move",
            Some(format!("gpuctl free --slots {}", free.wanted)),
        ),
        None => cause,
    }
}

/// Adds the first nodes, and those who hold their GPUs.
fn with_holders(
    facts: &Facts<'_>,
    pending: &PendingPod,
    on: &[&CandidateNode<'_>],
    room: &Room,
    mut cause: Cause,
) -> Cause {
    for one in on.iter().take(NAMED) {
        let what = format!(
            "{}: {} of {} free",
            one.node.name,
            devices(one.free, pending),
            devices(&one.node.now(), pending)
        );
        cause.evidence.push(Evidence {
            what,
            seen_in: "inventory",
            at: None,
        });
    }
    let holders = room.holders(on.iter().map(|one| one.node.name.as_str()));
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
        Some((name, at)) => cause.helps(
            format!(
                "wait for {name}, which must end by {}",
                at.round(jiff::Unit::Minute).unwrap_or(at)
            ),
            None,
        ),
        None => cause,
    }
}

/// Returns with how many GPUs a pod would fit now, and the command for that.
fn with_fewer(
    facts: &Facts<'_>,
    pending: &PendingPod,
    free: &FreeDevices,
    candidates: &[&CandidateNode<'_>],
) -> Option<(String, String)> {
    let most = free.most;
    if most <= 0 || most >= free.wanted || pending.together > 1 {
        return None;
    }
    let smaller: Amounts = pending
        .requests
        .iter()
        .map(|(resource, amount)| {
            let amount = if is_device(resource) {
                most * 1000
            } else {
                *amount
            };
            (resource.clone(), amount)
        })
        .collect();
    let fits = candidates
        .iter()
        .filter(|one| keeps_off(&pending.rules, &smaller, one.node, one.free).is_empty())
        .count();
    let nodes = match fits {
        0 => return None,
        1 => "1 node".to_owned(),
        several => format!("{several} nodes"),
    };
    Some((
        format!("with gpu: {most} it fits on {nodes} now"),
        set(facts, &format!("resources.gpu={most}")),
    ))
}

/// Names pods of lower priority that hold enough, where the pod's own class preempts nobody;
/// otherwise the scheduler ends them itself.
fn lower(pending: &PendingPod, on: &[&CandidateNode<'_>], room: &Room) -> Option<String> {
    if pending.rules.preempts() {
        return None;
    }
    let open = on
        .iter()
        .filter(|one| one.obstacles.iter().all(|(word, _)| is_shortage(word)));
    let load = open.map(|one| {
        (
            one.node.name.clone(),
            (
                one.free.clone(),
                room.placed.get(&one.node.name).cloned().unwrap_or_default(),
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
        format!("of lower priority there: {first}{more}; its PriorityClass preempts nobody")
    })
}

fn holder(facts: &Facts<'_>, name: String, gpus: u64) -> HolderTime {
    let known = facts.holders.iter().find(|one| one.name == name);
    HolderTime {
        since: known.and_then(|one| one.since),
        ends_by: known.and_then(|one| one.ends_by),
        name,
        gpus,
    }
}

/// Returns another pool that has room for all the pods now.
fn elsewhere(facts: &Facts<'_>, pending: &PendingPod, room: &Room) -> Option<(String, String)> {
    facts.job.pool.as_ref()?;
    let anywhere = pending.rules.without_labels(|key| key == POOL_LABEL);
    let mut pools: BTreeMap<&str, (u64, i128)> = BTreeMap::new();
    for node in facts.listed()? {
        let (Some(pool), Some(free)) = (node.pool(), room.free.get(&node.name)) else {
            continue;
        };
        if facts.job.pool.as_deref() == Some(pool)
            || !keeps_off(&anywhere, &pending.requests, node, free).is_empty()
        {
            continue;
        }
        let found = pools.entry(pool).or_default();
        found.0 += pods_held(
            &pending.requests,
            &BTreeMap::from([(node.name.clone(), free.clone())]),
        );
        found.1 += devices(free, pending);
    }
    let (pool, (_, free)) = pools
        .into_iter()
        .find(|(_, (takes, _))| *takes >= pending.together)?;
    Some((
        format!("pool {pool} has {free} free, and it fits there now"),
        set(facts, &format!("resources.pool={pool}")),
    ))
}

/// Too little CPU, memory, disk, pods or devices of other kinds.
pub(super) fn machine(
    facts: &Facts<'_>,
    pending: &PendingPod,
    obstacle: &CountedObstacle,
    on: &[&CandidateNode<'_>],
    room: &Room,
) -> Cause {
    let resource = obstacle.detail.as_deref().unwrap_or("cpu");
    let wanted = pending.requests.get(resource).copied().unwrap_or(0);
    let free = |one: &&&CandidateNode<'_>| one.free.get(resource).copied().unwrap_or(0);
    let best = on.iter().max_by_key(free);
    let most = best.map_or(0, |one| free(&one)).max(0);
    let place = best.map_or(String::new(), |one| format!(" ({})", one.node.name));
    let told = format!(
        "{} of {resource} on one node; at most {} are free{place}",
        amount(resource, wanted),
        amount(resource, most)
    );
    let mut cause = Cause::new(obstacle.word, told, "inventory");
    if let Some((name, held)) = room.most_of(resource, on.iter().map(|one| one.node.name.as_str()))
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
        .map(|(key, amount)| (key.clone(), if key == resource { most } else { *amount }))
        .collect();
    let fits = on
        .iter()
        .any(|one| lacking(&smaller, one.free).is_empty() && one.obstacles.len() == 1);
    if fits && most > 0 {
        let value = amount(
            resource,
            if resource == "cpu" {
                most / 1000 * 1000
            } else {
                most
            },
        );
        if value != "0" {
            return cause.proven(
                format!("with {resource}: {value} it fits now"),
                Some(set(facts, &format!("{field}={value}"))),
            );
        }
    }
    cause
}

/// Writes an amount as people write it: `16`, `500m`, `64Gi`.
fn amount(resource: &str, milli: i128) -> String {
    let whole = u64::try_from(milli / 1000).unwrap_or(0);
    match resource {
        "memory" | "ephemeral-storage" => quantity::binary(whole),
        _ if milli % 1000 != 0 => format!("{milli}m"),
        _ => whole.to_string(),
    }
}

/// Every node with the labels is too small.
pub(super) fn too_large(
    facts: &Facts<'_>,
    pending: &PendingPod,
    labelled: &[&CandidateNode<'_>],
) -> Cause {
    let short = labelled
        .iter()
        .flat_map(|one| lacking(&pending.requests, &one.node.most()))
        .next()
        .unwrap_or_default();
    let most = labelled
        .iter()
        .map(|one| one.node.most().get(&short).copied().unwrap_or(0))
        .max()
        .unwrap_or(0);
    let wanted = pending.requests.get(&short).copied().unwrap_or(0);
    if device_class(&short).is_some() && most == 0 {
        return super::devices::shortage(facts, pending, &short, labelled);
    }
    let what =
        device_class(&short).map_or_else(|| short.clone(), |class| format!("device class {class}"));
    let told = format!(
        "{} of {what} per pod, and the largest node that qualifies has {}",
        amount(&short, wanted),
        amount(&short, most)
    );
    let cause = Cause {
        nodes: Some(labelled.len() as u64),
        ..Cause::new("never-fits", told, "inventory")
    };
    match short.as_str() {
        short if (is_device(short) || device_class(short).is_some()) && most > 0 => {
            let text = format!("ask for {} per node, and for more nodes", most / 1000);
            cause.helps(
                text,
                Some(set(facts, &format!("resources.gpu={}", most / 1000))),
            )
        }
        "cpu" | "memory" => cause.helps(
            "ask for less",
            Some(set(
                facts,
                &format!("resources.{short}={}", amount(&short, most)),
            )),
        ),
        _ => cause,
    }
}
