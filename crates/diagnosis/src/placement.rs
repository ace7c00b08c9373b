//! Explains why no node accepts a pod. If the user can list nodes and all pods, compares the pod
//! with every node and counts the obstacles. The obstacle whose removal alone frees the most nodes
//! comes first. Otherwise, uses the scheduler's message.

use std::collections::BTreeMap;

use super::answer::Cause;
use super::candidates::{CandidateNode, CountedObstacle, candidate, counted, is_shortage};
use super::devices;
use super::facts::{Facts, PendingPod};
use super::message_causes::{
    causes_from_message, is_fallback, needs_scheduler, reason_cause, unlisted,
};
use super::nodes::node_obstacles;
use super::refused::set;
use super::scheduler::{SchedulerReason, reasons};
use super::shortage::{gpus, machine, too_large};
use gpuctl_core::model::counting::candidates::{ClusterCapacity, WaitingPod};
use gpuctl_core::model::counting::capacity::pods_held;
use gpuctl_core::model::facts::gpu::is_type_label;
use gpuctl_core::model::facts::resource::{is_device, is_device_share};
use gpuctl_core::model::{GpuType, Node};

/// Explains why the pod has no node.
pub(super) fn causes(facts: &Facts<'_>, pending: &PendingPod) -> Vec<Cause> {
    let unscheduled = pending
        .unscheduled
        .as_ref()
        .map_or("", |(_, message)| message.as_str());
    let reasons = reasons(unscheduled);
    if let Some(cause) = devices::missing(facts) {
        return vec![cause];
    }
    match (facts.listed(), facts.capacity) {
        (Some(nodes), Some(capacity)) if !nodes.is_empty() => {
            causes_from_nodes(facts, pending, nodes, capacity, &reasons)
        }
        _ => causes_from_message(facts, pending, &reasons),
    }
}

fn causes_from_nodes(
    facts: &Facts<'_>,
    pending: &PendingPod,
    nodes: &[Node],
    capacity: &ClusterCapacity,
    reasons: &[SchedulerReason],
) -> Vec<Cause> {
    let considered: Vec<CandidateNode<'_>> = nodes
        .iter()
        .filter_map(|node| candidate(pending, node, capacity))
        .collect();
    let labelled: Vec<&CandidateNode<'_>> = considered
        .iter()
        .filter(|candidate| !candidate.has_obstacle("node-selector"))
        .collect();
    if labelled.is_empty() {
        return vec![no_label(facts, pending, &considered, capacity)];
    }
    let candidates: Vec<&CandidateNode<'_>> = labelled
        .iter()
        .filter(|candidate| candidate.large_enough)
        .copied()
        .collect();
    if candidates.is_empty() {
        return vec![too_large(facts, pending, &labelled)];
    }
    // A node that fits some pods of a gang lacks capacity for the rest.
    let takes: u64 = candidates
        .iter()
        .filter(|candidate| candidate.lacks_only_resources())
        .map(|candidate| candidate.takes)
        .fold(0, u64::saturating_add);
    // Enough pods fit, so the scheduler has a reason that gpuctl does not evaluate.
    if takes >= pending.together {
        return beyond(facts, pending, reasons);
    }
    let mut obstacles = counted(&candidates);
    obstacles.extend(unlisted(&obstacles, reasons));
    // Accept an obstacle only if all pods of the gang fit without it, and not just more of them.
    let makes_gang_fit = |word: &str| {
        let left = candidates.iter().filter(|node| {
            node.obstacles
                .iter()
                .all(|(obstacle, _)| *obstacle == word || is_shortage(obstacle))
        });
        !is_shortage(word)
            && left.map(|node| node.takes).fold(0, u64::saturating_add) >= pending.together
    };
    obstacles.sort_by_key(|obstacle| {
        let is_partial = pending.together > 1 && !makes_gang_fit(obstacle.word);
        (is_partial, obstacle.order())
    });
    let mut causes: Vec<Cause> = obstacles
        .iter()
        .map(|obstacle| obstacle_cause(facts, pending, obstacle, &candidates, capacity, reasons))
        .collect();
    if takes > 0 && pending.together > 1 {
        let text = format!(
            "{takes} of {} pods fit now, but they are scheduled together or not at all",
            pending.together
        );
        causes.push(Cause::new("gang-incomplete", text, "inventory"));
    }
    causes.extend(ahead(facts, pending, capacity));
    causes
}

fn obstacle_cause(
    facts: &Facts<'_>,
    pending: &PendingPod,
    obstacle: &CountedObstacle,
    candidates: &[&CandidateNode<'_>],
    capacity: &ClusterCapacity,
    reasons: &[SchedulerReason],
) -> Cause {
    let on: Vec<&CandidateNode<'_>> = candidates
        .iter()
        .filter(|candidate| candidate.has_obstacle(obstacle.word))
        .copied()
        .collect();
    let names: Vec<&str> = on.iter().map(|candidate| candidate.name()).collect();
    let nodes = Some(on.len() as u64);
    let cause = match obstacle.word {
        // Memory and cores of shared GPUs are counted like CPU and memory.
        "insufficient-gpu" if !is_share(obstacle.detail.as_deref()) => {
            gpus(facts, pending, &on, candidates, capacity)
        }
        "device-claim" if obstacle.detail.is_some() => devices::shortage(
            facts,
            pending,
            obstacle.detail.as_deref().unwrap_or_default(),
            &on,
        ),
        word if is_shortage(word) && word != "device-claim" => {
            machine(facts, pending, obstacle, &on, capacity)
        }
        "cordoned" => cordoned(&names, &on, obstacle.alone),
        "taint" => tainted(facts, &names, obstacle.detail.as_deref()),
        "node-faulty" => faulty(&names, obstacle.detail.as_deref()),
        word => {
            let text = reasons
                .iter()
                .find(|reason| reason.word == word)
                .map_or(word, |reason| reason.text.as_str());
            return Cause {
                nodes: reasons
                    .iter()
                    .find(|reason| reason.word == word)
                    .and_then(|reason| reason.nodes),
                ..reason_cause(facts, pending, word, text)
            };
        }
    };
    Cause { nodes, ..cause }
}

fn is_share(resource: Option<&str>) -> bool {
    resource.is_some_and(|resource| is_device_share(resource) && !is_device(resource))
}

/// Builds the cause for cordoned nodes. `alone` is the number of nodes without other obstacles.
fn cordoned(names: &[&str], on: &[&CandidateNode<'_>], alone: usize) -> Cause {
    let cause = Cause::new("cordoned", format!("{} cordoned", are(names)), "inventory");
    let best = on
        .iter()
        .find(|candidate| candidate.obstacles.len() == 1)
        .or(on.first());
    let uncordon = format!(
        "kubectl uncordon {}",
        best.map_or("", |candidate| candidate.name())
    );
    if alone > 0 {
        cause.proven("it fits there", Some(uncordon))
    } else {
        cause.helps(
            "it fits there if more resources become free as well",
            Some(uncordon),
        )
    }
}

fn tainted(facts: &Facts<'_>, names: &[&str], taint: Option<&str>) -> Cause {
    let (nodes, taint) = (are(names), taint.unwrap_or("a taint"));
    let text = format!("{nodes} tainted with {taint}, which the pod does not tolerate");
    let tolerate = format!("pod.tolerations=[{{key: {taint}, operator: Exists}}]");
    let command = set(facts, &format!("'{tolerate}'"));
    Cause::new("taint", text, "inventory").helps(
        "tolerate the taint, if the owner of the nodes agrees",
        Some(command),
    )
}

fn faulty(names: &[&str], taint: Option<&str>) -> Cause {
    let text = format!("{} unhealthy: {}", are(names), taint.unwrap_or("a taint"));
    Cause::new("node-faulty", text, "inventory").helps(
        "see the node",
        Some(format!(
            "gpuctl describe node {}",
            names.first().unwrap_or(&"")
        )),
    )
}

/// Formats the subject of a sentence, such as `gpu-a-01 and gpu-a-02 are` or `5 nodes are`.
fn are(names: &[&str]) -> String {
    match names {
        [one] => format!("{one} is"),
        [one, two] => format!("{one} and {two} are"),
        [one, two, three] => format!("{one}, {two} and {three} are"),
        several => format!("{} nodes are", several.len()),
    }
}

/// Builds the cause for labels that no node has, such as the GPU type.
fn no_label(
    facts: &Facts<'_>,
    pending: &PendingPod,
    candidates: &[CandidateNode<'_>],
    capacity: &ClusterCapacity,
) -> Cause {
    let missing = |node: &CandidateNode<'_>| {
        node.obstacles
            .iter()
            .find(|(word, _)| *word == "node-selector")
            .and_then(|(_, label)| label.clone())
    };
    let is_type = |label: &String| is_type_label(label.split('=').next().unwrap_or(label));
    let labels: Vec<String> = candidates.iter().filter_map(missing).collect();
    if let Some(kind) = &facts.job.gpu_type
        && labels.iter().any(is_type)
        && !has_type(facts, candidates, kind)
    {
        return type_absent(facts, pending, kind, candidates.len(), capacity);
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
        format!("no node has {label}, which the pod requires"),
        "inventory",
    );
    let cause = Cause {
        nodes: Some(candidates.len() as u64),
        ..cause
    };
    cause.helps(
        "see the node labels",
        Some("gpuctl get nodes -o wide".to_owned()),
    )
}

/// Returns true if a node of the job's pool has GPUs of this type. If the node is excluded by
/// another label, the GPU type is not the problem.
fn has_type(facts: &Facts<'_>, candidates: &[CandidateNode<'_>], kind: &str) -> bool {
    let pool = facts.job.pool.as_deref();
    let kind = GpuType::parse(kind).map_or_else(|| kind.to_owned(), |kind| kind.to_string());
    candidates
        .iter()
        .filter(|candidate| pool.is_none_or(|pool| candidate.node.pool() == Some(pool)))
        .filter_map(|candidate| candidate.node.gpu_type())
        .any(|gpu_type| gpu_type.to_string() == kind)
}

/// Builds the cause for a GPU type that none of `nodes` nodes has.
fn type_absent(
    facts: &Facts<'_>,
    pending: &PendingPod,
    kind: &str,
    nodes: usize,
    capacity: &ClusterCapacity,
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
    let cause = cause.helps("list the available types", Some("gpuctl free".to_owned()));
    match other_type(facts, pending, capacity) {
        Some((text, command)) => cause.proven(text, Some(command)),
        None => Cause {
            nodes: Some(nodes as u64),
            ..cause
        },
    }
}

/// Suggests another GPU type with enough free capacity.
fn other_type(
    facts: &Facts<'_>,
    pending: &PendingPod,
    capacity: &ClusterCapacity,
) -> Option<(String, String)> {
    let any = pending.rules.without_labels(is_type_label);
    let mut types: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for node in facts.listed()? {
        let (Some(kind), Some(free)) = (node.gpu_type(), capacity.free.get(&node.name)) else {
            continue;
        };
        if node_obstacles(&any, &pending.requests, node, free).is_empty() {
            let total = types.entry(kind.to_string()).or_default();
            total.0 += 1;
            total.1 += pods_held(
                &pending.requests,
                &BTreeMap::from([(node.name.clone(), free.clone())]),
            );
        }
    }
    // Suggest only a type with capacity for all pods together.
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
        format!("with gpu_type: {kind}, it fits on {nodes} now"),
        set(facts, &format!("resources.gpu_type={kind}")),
    ))
}

/// Returns the causes if the pod fits by gpuctl's comparison: a constraint that only the scheduler
/// evaluates, or a scheduler that has not retried yet.
fn beyond(facts: &Facts<'_>, pending: &PendingPod, reasons: &[SchedulerReason]) -> Vec<Cause> {
    let causes: Vec<Cause> = reasons
        .iter()
        .filter(|reason| needs_scheduler(reason.word) || is_fallback(reason.word))
        .map(|reason| Cause {
            nodes: reason.nodes,
            ..reason_cause(facts, pending, reason.word, &reason.text)
        })
        .collect();
    if !causes.is_empty() {
        return causes;
    }
    reasons
        .iter()
        .filter(|reason| reason.word != "node-selector")
        .map(|reason| {
            let cause = reason_cause(facts, pending, reason.word, &reason.text);
            Cause {
                nodes: reason.nodes,
                ..cause.and(
                    "enough capacity is free now, but the scheduler has not retried yet",
                    "inventory",
                )
            }
        })
        .collect()
}

/// Returns the cause for higher-priority pods that wait for devices or for a preemption.
fn ahead(facts: &Facts<'_>, pending: &PendingPod, capacity: &ClusterCapacity) -> Option<Cause> {
    let job = facts.full_name();
    let before = capacity.waiting.iter().filter(|pod| {
        pod.priority > pending.rules.priority() && pod.devices > 0 && pod.holder != job
    });
    let mut before: Vec<&WaitingPod> = before.collect();
    before.sort_by_key(|pod| pod.nominated.is_none());
    let first = before.first()?;
    let more = if before.len() > 1 {
        format!(" and {} more pods", before.len() - 1)
    } else {
        String::new()
    };
    let text = format!(
        "pods with higher priority also wait for GPUs and come first: {}{more}",
        first.holder
    );
    let cause = Cause::new("priority-lower", text, "inventory");
    let freed = before
        .iter()
        .find_map(|pod| Some((&pod.holder, pod.nominated.as_ref()?)));
    Some(match freed {
        Some((holder, node)) => {
            cause.and(format!("{node} is being freed for {holder}"), "inventory")
        }
        None => cause,
    })
}
