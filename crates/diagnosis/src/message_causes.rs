//! Derives causes from the scheduler's message, for users who cannot list nodes and for constraints
//! that gpuctl does not evaluate.

use super::answer::Cause;
use super::facts::{Facts, PendingPod};
use super::scheduler::SchedulerReason;
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
            | "insufficient-storage"
    )
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
                ..reason_cause(pending, word, &reason.text)
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
        "claim-missing" | "claim-pending" => 0,
        word if word.starts_with("insufficient") => 1,
        word if needs_scheduler(word) => 2,
        "cordoned" | "node-faulty" => 3,
        "taint" => 4,
        _ => 5,
    }
}

/// Builds a cause that quotes the scheduler.
pub(super) fn reason_cause(pending: &PendingPod, word: &'static str, text: &str) -> Cause {
    let evidence = match word {
        "gpu-type-absent" => "no node has GPUs of the requested type".to_owned(),
        _ => format!("the scheduler reports for {}: {text}", pending.name),
    };
    Cause::new(word, evidence, "scheduler")
}
