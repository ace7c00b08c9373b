//! Parses kube-scheduler's message about a pod without a node, such as `0/5 nodes are available: 2
//! Insufficient nvidia.com/gpu, …`. Each part has the number of nodes that one filter excluded. The
//! texts are those of Kubernetes 1.28 to 1.36, pkg/scheduler/framework/plugins. Unknown parts are
//! skipped.

use super::nodes::{insufficient, taint_word};
use gpuctl_core::model::facts::state::scheduler_words;

/// A part of the scheduler's message: a reason that excludes some nodes, or blocks the pod on all
/// nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchedulerReason {
    pub word: &'static str,
    /// Number of excluded nodes, or `None` if the reason concerns the pod itself.
    pub nodes: Option<u64>,
    /// The taint or resource that the reason is about.
    pub detail: Option<String>,
    pub text: String,
}

/// Texts of scheduler filters, and the names of their causes.
const PARTS: [(&str, &str); 21] = [
    ("were unschedulable", "cordoned"),
    ("had untolerated taint", "taint"),
    ("didn't match Pod's node affinity", "node-selector"),
    ("didn't satisfy plugin(s) [NodeAffinity]", "node-selector"),
    (
        "didn't match PersistentVolume's node affinity",
        "volume-topology",
    ),
    ("volume node affinity conflict", "volume-topology"),
    (
        "didn't find available persistent volumes",
        "volume-topology",
    ),
    ("no available volume zone", "volume-topology"),
    ("unavailable due to PersistentVolume", "volume-topology"),
    ("exceed max volume count", "volume-topology"),
    ("did not have enough free storage", "insufficient-storage"),
    ("didn't match pod topology spread", "topology-spread"),
    ("didn't match pod affinity", "pod-affinity"),
    ("didn't match pod anti-affinity", "pod-affinity"),
    ("didn't satisfy existing pods anti-affinity", "pod-affinity"),
    ("didn't have free ports", "host-port"),
    ("cannot allocate all claims", "device-claim"),
    ("unbound immediate PersistentVolumeClaims", "claim-pending"),
    // Part of `persistentvolumeclaim "x" not found`.
    ("persistentvolumeclaim", "claim-missing"),
    ("resourceclaim", "device-claim"),
    ("Too many pods", "insufficient-pods"),
];

/// Parses the parts of a message.
pub(super) fn reasons(message: &str) -> Vec<SchedulerReason> {
    let message = scheduler_words(message);
    let parts = message
        .split_once(": ")
        .filter(|(head, _)| head.contains("nodes are available"));
    match parts {
        Some((_, parts)) => split(parts).into_iter().filter_map(part).collect(),
        None => part(message).into_iter().collect(),
    }
}

/// Splits at commas before a number, because texts about taints and claims contain commas too.
pub(super) fn split(parts: &str) -> Vec<&str> {
    let mut texts = Vec::new();
    let mut start = 0;
    for (position, _) in parts.match_indices(", ") {
        if parts[position + 2..].starts_with(|c: char| c.is_ascii_digit()) {
            texts.push(&parts[start..position]);
            start = position + 2;
        }
    }
    texts.push(&parts[start..]);
    texts
}

fn part(text: &str) -> Option<SchedulerReason> {
    let text = text.trim().trim_end_matches('.');
    let (number, words) = text.split_once(' ').unwrap_or((text, ""));
    let (nodes, words) = number
        .parse()
        .map_or((None, text), |nodes| (Some(nodes), words));
    let reason = |word, detail: Option<&str>| {
        Some(SchedulerReason {
            word,
            nodes,
            detail: detail.map(ToOwned::to_owned),
            text: text.to_owned(),
        })
    };
    if let Some(resource) = words.strip_prefix("Insufficient ") {
        return reason(insufficient(resource), Some(resource));
    }
    let (_, word) = PARTS
        .iter()
        .find(|(words_of_filter, _)| words.contains(words_of_filter))?;
    if *word != "taint" {
        return reason(word, None);
    }
    let taint = words
        .split_once('{')
        .map(|(_, rest)| rest.trim_end_matches('}'));
    let key = taint.map(|taint| taint.split(':').next().unwrap_or(taint).trim());
    reason(key.map_or("taint", taint_word), key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(message: &str) -> Vec<(&'static str, Option<u64>, Option<String>)> {
        reasons(message)
            .into_iter()
            .map(|reason| (reason.word, reason.nodes, reason.detail))
            .collect()
    }

    #[test]
    fn each_filter_reason_is_counted() {
        let message = "0/7 nodes are available: 1 node(s) had untolerated taint {example.com/a: b}, 1 node(s) had untolerated taint \
                       {node.kubernetes.io/unreachable: }, 2 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable, 2 node(s) didn't \
                       match Pod's node affinity/selector. preemption: 0/7 nodes are available: 7 Preemption is not helpful.";
        let expected = [
            ("taint", Some(1), Some("example.com/a")),
            (
                "node-faulty",
                Some(1),
                Some("node.kubernetes.io/unreachable"),
            ),
            ("insufficient-gpu", Some(2), Some("nvidia.com/gpu")),
            ("cordoned", Some(1), None),
            ("node-selector", Some(2), None),
        ];
        assert_eq!(
            parsed(message),
            expected.map(|(word, nodes, detail)| (word, nodes, detail.map(ToOwned::to_owned)))
        );
        assert_eq!(
            parsed(
                "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
            ),
            [("claim-pending", None, None)]
        );
        assert_eq!(
            parsed("persistentvolumeclaim \"data\" not found"),
            [("claim-missing", None, None)]
        );
        assert_eq!(parsed("0/1 nodes are available: 1 something new."), []);
        assert_eq!(parsed(""), []);
    }
}
