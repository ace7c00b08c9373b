//! Derives causes from the scheduler's message alone, for users who cannot list nodes and for
//! constraints that gpuctl does not evaluate.

use super::answer::Cause;
use super::facts::{Facts, PendingPod};
use super::scheduler::SchedulerReason;
use gpuctl_core::model::facts::gpu::is_type_label;
use gpuctl_manifest::render::PodRules;

/// True for a cause that only the scheduler can evaluate.
pub(super) fn is_beyond(word: &str) -> bool {
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

/// Derives causes from the parts of the scheduler's message.
pub(super) fn by_words(
    facts: &Facts<'_>,
    pending: &PendingPod,
    said: &[SchedulerReason],
) -> Vec<Cause> {
    // Nodes without the requested labels were excluded on purpose, so they are a cause only if no
    // node remains.
    let mut parts: Vec<&SchedulerReason> = said.iter().collect();
    parts.sort_by_key(|one| (rank(one.word), std::cmp::Reverse(one.nodes)));
    let only_labels = parts.iter().all(|one| {
        matches!(
            one.word,
            "node-selector" | "taint" | "cordoned" | "node-faulty"
        )
    }) && parts.iter().any(|one| one.word == "node-selector");
    parts
        .into_iter()
        .filter(|one| only_labels || one.word != "node-selector")
        .map(|one| {
            let asks_type = one.word == "node-selector"
                && only_labels
                && asks_type_alone(&pending.rules)
                && facts.job.gpu_type.is_some();
            let word = if asks_type {
                "gpu-type-absent"
            } else {
                one.word
            };
            // The message does not show whether the nodes with the labels are the ones with the
            // taint, so all parts get the same weight.
            let weight = if only_labels { 1.0 } else { 0.0 };
            Cause {
                nodes: one.nodes,
                weight,
                ..of_words(pending, word, &one.text)
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
        word if is_beyond(word) => 2,
        "cordoned" | "node-faulty" => 3,
        "taint" => 4,
        _ => 5,
    }
}

/// Makes a cause that quotes the scheduler.
pub(super) fn of_words(pending: &PendingPod, word: &'static str, text: &str) -> Cause {
    let told = match word {
        "gpu-type-absent" => "no node has GPUs of the type".to_owned(),
        _ => format!("the scheduler reports for {}: {text}", pending.name),
    };
    Cause::new(word, told, "scheduler")
}
