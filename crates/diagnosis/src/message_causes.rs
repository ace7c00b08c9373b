//! Derives causes from the scheduler's message, for users who cannot list nodes and for constraints
//! that gpuctl does not evaluate.

use super::answer::Cause;
use super::candidates::CountedObstacle;
use super::facts::{Facts, PendingPod};
use super::scheduler::{OTHER, SchedulerReason};
use gpuctl_core::model::facts::gpu::is_type_label;
use gpuctl_manifest::render::PodRules;

/// Returns true if only the scheduler can evaluate the cause.
pub(super) fn needs_scheduler(word: &str) -> bool {
    matches!(
        word,
        "volume-topology"
            | "topology-spread"
            | "pod-affinity"
            | "host-port"
            | "device-claim"
            | "claim-pending"
            | "claim-missing"
            | "claim-deleting"
            | "claim-in-use"
            | "volume-missing"
            | "volume-limit"
            | "insufficient-storage"
    )
}

/// Returns true for the reasons of gangs, queues and unknown filters, which count only if the
/// comparison with the nodes finds no obstacle.
pub(super) fn is_fallback(word: &str) -> bool {
    matches!(word, OTHER | "gang-incomplete" | "queue-quota" | "no-nodes")
}

/// Returns an obstacle that the scheduler reports but gpuctl cannot evaluate. The scheduler applies
/// these filters last, so the nodes that they exclude have passed all other filters.
pub(super) fn unlisted(
    obstacles: &[CountedObstacle],
    reasons: &[SchedulerReason],
) -> Option<CountedObstacle> {
    let is_known = |word: &str| obstacles.iter().any(|obstacle| obstacle.word == word);
    let reason = reasons
        .iter()
        .find(|reason| needs_scheduler(reason.word) && !is_known(reason.word))?;
    let nodes = usize::try_from(reason.nodes.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    Some(CountedObstacle {
        word: reason.word,
        detail: None,
        alone: nodes,
        nodes,
    })
}

/// Returns a cause for each part of the scheduler's message.
pub(super) fn causes_from_message(
    facts: &Facts<'_>,
    pending: &PendingPod,
    reasons: &[SchedulerReason],
) -> Vec<Cause> {
    // A job's labels exclude other nodes on purpose, so missing labels are a cause only if no node
    // remains.
    let mut parts: Vec<&SchedulerReason> = reasons.iter().collect();
    parts.sort_by_key(|reason| (rank(reason.word), std::cmp::Reverse(reason.nodes)));
    let only_labels = parts.iter().all(|reason| {
        matches!(
            reason.word,
            "node-selector" | "taint" | "cordoned" | "node-faulty"
        )
    }) && parts.iter().any(|reason| reason.word == "node-selector");
    parts
        .into_iter()
        .filter(|reason| only_labels || reason.word != "node-selector")
        .map(|reason| {
            let asks_type = reason.word == "node-selector"
                && only_labels
                && asks_type_alone(&pending.rules)
                && facts.job.gpu_type.is_some();
            let word = if asks_type {
                "gpu-type-absent"
            } else {
                reason.word
            };
            // Give all parts the same weight: the message does not show whether the nodes with the
            // labels are those with the taint.
            let weight = if only_labels { 1.0 } else { 0.0 };
            Cause {
                nodes: reason.nodes,
                weight,
                ..reason_cause(facts, pending, word, &reason.text)
            }
        })
        .collect()
}

fn asks_type_alone(rules: &PodRules) -> bool {
    let keys = rules.selector_keys();
    !keys.is_empty()
        && keys.iter().all(|key| {
            is_type_label(key) || key.starts_with("nvidia.com/") || key.starts_with("amd.com/")
        })
}

fn rank(word: &str) -> u8 {
    match word {
        "claim-missing" | "claim-pending" | "claim-deleting" | "claim-in-use"
        | "volume-missing" => 0,
        word if word.starts_with("insufficient") => 1,
        word if needs_scheduler(word) => 2,
        "cordoned" | "node-faulty" => 3,
        "taint" => 4,
        OTHER => 6,
        _ => 5,
    }
}

/// Builds a cause that quotes the scheduler.
pub(super) fn reason_cause(
    facts: &Facts<'_>,
    pending: &PendingPod,
    word: &'static str,
    text: &str,
) -> Cause {
    let evidence = match word {
        "gpu-type-absent" => "no node has GPUs of the requested type".to_owned(),
        _ => format!("the scheduler reports for {}: {text}", pending.name),
    };
    let cause = Cause::new(word, evidence, "scheduler");
    match word {
        OTHER => cause.helps(
            "see the documentation of the scheduler and its plugins for these words",
            Some(format!(
                "kubectl describe pod {} -n {}",
                pending.name, facts.job.namespace
            )),
        ),
        _ => cause,
    }
}
