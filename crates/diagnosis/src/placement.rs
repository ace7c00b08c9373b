//! Why no node takes a pod. Where nodes and all pods may be listed, every node is compared with the
//! pod and every obstacle counted: first comes the one whose removal alone gives most nodes. Where
//! they may not, the scheduler's sentence is what there is.

use std::collections::BTreeMap;

use super::answer::Cause;
use super::by_words::{by_words, is_beyond, of_words};
use super::candidates::{CandidateNode, CountedObstacle, candidate, counted, is_shortage};
use super::devices;
use super::facts::{Facts, PendingPod};
use super::nodes::keeps_off;
use super::refused::set;
use super::scheduler::{SchedulerReason, reasons};
use super::shortage::{gpus, machine, too_large};
use gpuctl_core::model::counting::candidates::{Room, WaitingPod};
use gpuctl_core::model::counting::capacity::pods_held;
use gpuctl_core::model::facts::gpu::is_type_label;
use gpuctl_core::model::{GpuType, Node};

/// Returns why the pod has no node.
pub(super) fn causes(facts: &Facts<'_>, pending: &PendingPod) -> Vec<Cause> {
    let told = pending
        .unscheduled
        .as_ref()
        .map_or("", |(_, message)| message.as_str());
    let said = reasons(told);
    if let Some(cause) = devices::missing(facts) {
        return vec![cause];
    }
    match (facts.listed(), facts.room) {
        (Some(nodes), Some(room)) if !nodes.is_empty() => {
            by_nodes(facts, pending, nodes, room, &said)
        }
        _ => by_words(facts, pending, &said),
    }
}

fn by_nodes(
    facts: &Facts<'_>,
    pending: &PendingPod,
    nodes: &[Node],
    room: &Room,
    said: &[SchedulerReason],
) -> Vec<Cause> {
    let all: Vec<CandidateNode<'_>> = nodes
        .iter()
        .filter_map(|node| candidate(pending, node, room))
        .collect();
    let off_selector = |one: &CandidateNode<'_>| {
        one.obstacles
            .iter()
            .any(|(word, _)| *word == "node-selector")
    };
    let labelled: Vec<&CandidateNode<'_>> = all.iter().filter(|one| !off_selector(one)).collect();
    if labelled.is_empty() {
        return vec![no_label(facts, pending, &all, room)];
    }
    let candidates: Vec<&CandidateNode<'_>> = labelled
        .iter()
        .filter(|one| one.large_enough)
        .copied()
        .collect();
    if candidates.is_empty() {
        return vec![too_large(facts, pending, &labelled)];
    }
    // A node that takes some pods of a gang still lacks room for more of them.
    let open = |one: &&&CandidateNode<'_>| one.obstacles.iter().all(|(word, _)| is_shortage(word));
    let takes: u64 = candidates
        .iter()
        .filter(open)
        .map(|one| one.takes)
        .fold(0, u64::saturating_add);
    if takes >= pending.together {
        return beyond(pending, said);
    }
    let mut found = counted(&candidates);
    found.extend(unseen_obstacle(&found, said));
    // Without this obstacle the nodes have room for all pods of a gang, and not only for more of
    // them.
    let whole = |word: &str| {
        let left = candidates.iter().filter(|one| {
            one.obstacles
                .iter()
                .all(|(other, _)| *other == word || is_shortage(other))
        });
        !is_shortage(word)
            && left.map(|one| one.takes).fold(0, u64::saturating_add) >= pending.together
    };
    found.sort_by_key(|one| (pending.together > 1 && !whole(one.word), one.order()));
    let mut causes: Vec<Cause> = found
        .iter()
        .map(|one| of_obstacle(facts, pending, one, &candidates, room, said))
        .collect();
    if takes > 0 && pending.together > 1 {
        let told = format!(
            "{takes} of {} pods fit now, and they are placed together or not at all",
            pending.together
        );
        causes.push(Cause::new("gang-incomplete", told, "inventory"));
    }
    causes.extend(ahead(facts, pending, room));
    causes
}

fn of_obstacle(
    facts: &Facts<'_>,
    pending: &PendingPod,
    obstacle: &CountedObstacle,
    candidates: &[&CandidateNode<'_>],
    room: &Room,
    said: &[SchedulerReason],
) -> Cause {
    let on: Vec<&CandidateNode<'_>> = candidates
        .iter()
        .filter(|one| one.obstacles.iter().any(|(word, _)| *word == obstacle.word))
        .copied()
        .collect();
    let names: Vec<&str> = on.iter().map(|one| one.node.name.as_str()).collect();
    let nodes = Some(on.len() as u64);
    let cause = match obstacle.word {
        "insufficient-gpu" => gpus(facts, pending, &on, candidates, room),
        "device-claim" if obstacle.detail.is_some() => devices::shortage(
            facts,
            pending,
            obstacle.detail.as_deref().unwrap_or_default(),
            &on,
        ),
        word if is_shortage(word) && word != "device-claim" => {
            machine(facts, pending, obstacle, &on, room)
        }
        "cordoned" => cordoned(&names, &on, obstacle.alone),
        "taint" => tainted(facts, &names, obstacle.detail.as_deref()),
        "node-faulty" => faulty(&names, obstacle.detail.as_deref()),
        word => {
            let text = said
                .iter()
                .find(|reason| reason.word == word)
                .map_or(word, |reason| reason.text.as_str());
            return Cause {
                nodes: said
                    .iter()
                    .find(|reason| reason.word == word)
                    .and_then(|reason| reason.nodes),
                ..of_words(pending, word, text)
            };
        }
    };
    Cause { nodes, ..cause }
}

/// Returns an obstacle that the scheduler names and the comparison of nodes cannot see. Its filters
/// come last: the nodes that they rule out passed all others.
fn unseen_obstacle(found: &[CountedObstacle], said: &[SchedulerReason]) -> Option<CountedObstacle> {
    let is_known = |word: &str| found.iter().any(|one| one.word == word);
    let reason = said
        .iter()
        .find(|reason| is_beyond(reason.word) && !is_known(reason.word))?;
    let nodes = usize::try_from(reason.nodes.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    Some(CountedObstacle {
        word: reason.word,
        detail: None,
        alone: nodes,
        nodes,
    })
}

/// Returns the cause of nodes that are cordoned, `alone` of which lack nothing else.
fn cordoned(names: &[&str], on: &[&CandidateNode<'_>], alone: usize) -> Cause {
    let cause = Cause::new("cordoned", format!("{} cordoned", are(names)), "inventory");
    let best = on
        .iter()
        .find(|one| one.obstacles.len() == 1)
        .or(on.first());
    let uncordon = format!(
        "kubectl uncordon {}",
        best.map_or("", |one| one.node.name.as_str())
    );
    if alone > 0 {
        cause.proven("it fits there", Some(uncordon))
    } else {
        cause.helps("it fits there when more is free as well", Some(uncordon))
    }
}

fn tainted(facts: &Facts<'_>, names: &[&str], taint: Option<&str>) -> Cause {
    let taint = taint.unwrap_or("a taint");
    let what = format!("{} tainted {taint}, which it does not tolerate", are(names));
    let tolerate = format!("pod.tolerations=[{{key: {taint}, operator: Exists}}]");
    let command = set(facts, &format!("'{tolerate}'"));
    Cause::new("taint", what, "inventory")
        .helps("tolerate it, where whoever set it agrees", Some(command))
}

fn faulty(names: &[&str], taint: Option<&str>) -> Cause {
    let what = format!("{} not well: {}", are(names), taint.unwrap_or("a taint"));
    Cause::new("node-faulty", what, "inventory").helps(
        "see the node",
        Some(format!(
            "gpuctl describe node {}",
            names.first().unwrap_or(&"")
        )),
    )
}

/// Says «gpu-a-01 and gpu-a-02 are», «5 nodes are».
fn are(names: &[&str]) -> String {
    match names {
        [one] => format!("{one} is"),
        [one, two] => format!("{one} and {two} are"),
        [one, two, three] => format!("{one}, {two} and {three} are"),
        several => format!("{} nodes are", several.len()),
    }
}

/// Returns the cause of a pod whose labels no node has: the GPU type, or others.
fn no_label(
    facts: &Facts<'_>,
    pending: &PendingPod,
    all: &[CandidateNode<'_>],
    room: &Room,
) -> Cause {
    let missing = |one: &CandidateNode<'_>| {
        one.obstacles
            .iter()
            .find(|(word, _)| *word == "node-selector")
            .and_then(|(_, label)| label.clone())
    };
    let is_type = |label: &String| is_type_label(label.split('=').next().unwrap_or(label));
    let labels: Vec<String> = all.iter().filter_map(missing).collect();
    if let Some(kind) = &facts.job.gpu_type
        && labels.iter().any(is_type)
        && !has_type(facts, all, kind)
    {
        return type_absent(facts, pending, kind, all.len(), room);
    }
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    labels
        .iter()
        .for_each(|label| *counts.entry(label).or_default() += 1);
    let label = counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map_or("the labels", |(label, _)| label.as_str());
    let cause = Cause::new(
        "node-selector",
        format!("no node has {label}, which the pod asks for"),
        "inventory",
    );
    let cause = Cause {
        nodes: Some(all.len() as u64),
        ..cause
    };
    cause.helps(
        "see the labels of the nodes",
        Some("gpuctl get nodes -o wide".to_owned()),
    )
}

/// Returns true when a node of the job's pool has GPUs of a type. A node of the type that fails on
/// another label shows that the type exists.
fn has_type(facts: &Facts<'_>, all: &[CandidateNode<'_>], kind: &str) -> bool {
    let pool = facts.job.pool.as_deref();
    let kind = GpuType::parse(kind).map_or_else(|| kind.to_owned(), |kind| kind.to_string());
    all.iter()
        .filter(|one| pool.is_none_or(|pool| one.node.pool() == Some(pool)))
        .filter_map(|one| one.node.gpu_type())
        .any(|found| found.to_string() == kind)
}

/// Returns the cause of a job whose GPU type none of `nodes` nodes has.
fn type_absent(
    facts: &Facts<'_>,
    pending: &PendingPod,
    kind: &str,
    nodes: usize,
    room: &Room,
) -> Cause {
    let pool = facts
        .job
        .pool
        .as_ref()
        .map_or(String::new(), |pool| format!(" in pool {pool}"));
    let cause = Cause::new(
        "gpu-type-absent",
        format!("no node{pool} has GPUs of type {kind}"),
        "inventory",
    );
    let cause = cause.helps("see which types there are", Some("gpuctl free".to_owned()));
    match other_type(facts, pending, room) {
        Some((text, command)) => cause.proven(text, Some(command)),
        None => Cause {
            nodes: Some(nodes as u64),
            ..cause
        },
    }
}

/// Returns a type of which there is room now.
fn other_type(facts: &Facts<'_>, pending: &PendingPod, room: &Room) -> Option<(String, String)> {
    let any = pending.rules.without_labels(is_type_label);
    let mut types: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for node in facts.listed()? {
        let (Some(kind), Some(free)) = (node.gpu_type(), room.free.get(&node.name)) else {
            continue;
        };
        if keeps_off(&any, &pending.requests, node, free).is_empty() {
            let found = types.entry(kind.to_string()).or_default();
            found.0 += 1;
            found.1 += pods_held(
                &pending.requests,
                &BTreeMap::from([(node.name.clone(), free.clone())]),
            );
        }
    }
    let fitting = types
        .into_iter()
        .filter(|(_, (_, takes))| *takes >= pending.together);
    let (kind, (nodes, _)) = fitting.max_by_key(|(_, (nodes, _))| *nodes)?;
    let nodes = if nodes == 1 {
        "1 node".to_owned()
    } else {
        format!("{nodes} nodes")
    };
    Some((
        format!("with gpu_type: {kind} it fits on {nodes} now"),
        set(facts, &format!("resources.gpu_type={kind}")),
    ))
}

/// By what is compared here it fits: the scheduler knows more, or has not looked again yet.
fn beyond(pending: &PendingPod, said: &[SchedulerReason]) -> Vec<Cause> {
    let known: Vec<Cause> = said
        .iter()
        .filter(|one| is_beyond(one.word))
        .map(|one| Cause {
            nodes: one.nodes,
            ..of_words(pending, one.word, &one.text)
        })
        .collect();
    if !known.is_empty() {
        return known;
    }
    said.iter()
        .filter(|one| one.word != "node-selector")
        .map(|one| {
            let cause = of_words(pending, one.word, &one.text);
            Cause {
                nodes: one.nodes,
                ..cause.and(
                    "there is room by now: the scheduler has not looked again yet",
                    "inventory",
                )
            }
        })
        .collect()
}

/// Pods of higher priority that wait for devices as well, or for which a node is being freed.
fn ahead(facts: &Facts<'_>, pending: &PendingPod, room: &Room) -> Option<Cause> {
    let own = facts.full_name();
    let before = room.waiting.iter().filter(|one| {
        one.priority > pending.rules.priority() && one.devices > 0 && one.holder != own
    });
    let mut before: Vec<&WaitingPod> = before.collect();
    before.sort_by_key(|one| one.nominated.is_none());
    let first = before.first()?;
    let more = if before.len() > 1 {
        format!(" and {} more pods", before.len() - 1)
    } else {
        String::new()
    };
    let told = format!(
        "{}{more} of higher priority wait for GPUs as well, and come first",
        first.holder
    );
    let cause = Cause::new("priority-lower", told, "inventory");
    let freed = before
        .iter()
        .find_map(|one| Some((&one.holder, one.nominated.as_ref()?)));
    Some(match freed {
        Some((holder, node)) => {
            cause.and(format!("{node} is being freed for {holder}"), "inventory")
        }
        None => cause,
    })
}
