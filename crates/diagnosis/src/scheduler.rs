//! Parses a scheduler's message about a pod without a node, such as `0/5 nodes are available: 2
//! Insufficient nvidia.com/gpu, …`. Each part has the number of nodes that one filter excluded.
//! Parts and messages are compared as a whole; unknown ones are quoted as `scheduler-other`.

use super::message_pattern::{captures, word_of};
use super::nodes::{insufficient, taint_word};
use super::scheduler_messages::{HEADS, MESSAGES, PARTS};
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

/// Name of the cause of an unknown reason.
pub(super) const OTHER: &str = "scheduler-other";

/// Parses the parts of a message. Unknown parts have the cause `scheduler-other`.
pub(super) fn reasons(message: &str) -> Vec<SchedulerReason> {
    let message = scheduler_words(message.trim()).trim();
    if message.is_empty() {
        return Vec::new();
    }
    let parts = message.split_once(": ").filter(|(head, _)| {
        HEADS
            .iter()
            .any(|pattern| captures(pattern, head).is_some())
    });
    match parts {
        Some((head, parts)) => {
            let separator = if head.ends_with("were found") {
                ". "
            } else {
                ""
            };
            let one_line = parts.replace('\n', " ");
            let parts: Vec<&str> = match separator {
                "" => split(&one_line),
                separator => one_line
                    .split(separator)
                    .flat_map(|part| split(part))
                    .collect(),
            };
            parts.into_iter().filter_map(part).collect()
        }
        None => vec![whole(message)],
    }
}

fn whole(message: &str) -> SchedulerReason {
    SchedulerReason {
        word: word_of(&MESSAGES, message).unwrap_or(OTHER),
        nodes: None,
        detail: None,
        text: message.to_owned(),
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

/// Parses a part such as `2 Insufficient nvidia.com/gpu`. HAMi adds the number of a node's cards:
/// `1 4/8 CardInsufficientMemory`, and lists several as `4/8 CardInsufficientMemory`.
fn part(text: &str) -> Option<SchedulerReason> {
    let text = text.trim().trim_end_matches('.');
    if text.is_empty() {
        return None;
    }
    let (nodes, words) = counted(text);
    let words = words
        .split_once(' ')
        .filter(|(number, _)| {
            captures("{}/{}", number).is_some_and(|texts| texts.iter().all(is_number))
        })
        .map_or(words, |(_, words)| words);
    let reason = |word, detail: Option<&str>| {
        Some(SchedulerReason {
            word,
            nodes,
            detail: detail.map(ToOwned::to_owned),
            text: text.to_owned(),
        })
    };
    let word = word_of(&PARTS, words).or_else(|| word_of(&MESSAGES, words));
    match word {
        Some("taint") => {
            let taint = words.split_once('{');
            let taint = taint.map(|(_, rest)| rest.split('}').next().unwrap_or(rest));
            let key = taint.map(|taint| taint.split(':').next().unwrap_or(taint).trim());
            reason(key.map_or("taint", taint_word), key)
        }
        Some(word) => reason(word, None),
        None => match words.strip_prefix("Insufficient ") {
            Some(resource) if !resource.contains(' ') => {
                reason(insufficient(resource), Some(resource))
            }
            _ => reason(OTHER, None),
        },
    }
}

/// Splits the number of nodes from a part.
pub(super) fn counted(text: &str) -> (Option<u64>, &str) {
    let (number, words) = text.split_once(' ').unwrap_or((text, ""));
    number
        .parse()
        .map_or((None, text), |nodes| (Some(nodes), words))
}

fn is_number(text: &&str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
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
        let unknown = [("scheduler-other", Some(1), None)];
        assert_eq!(parsed("0/1 nodes are available: 1 something new."), unknown);
        assert_eq!(parsed(""), []);
    }

    /// The messages are those of the sources in the header, and of akash-network/support #249.
    #[test]
    fn messages_of_other_schedulers_have_causes() {
        let cases: [(&str, &[&str]); 24] = [
            (
                "all nodes are unavailable: 1 node(s) had untolerated taint \
                 {node-role.kubernetes.io/control-plane: }, 3 Insufficient nvidia.com/gpu.",
                &["taint", "insufficient-gpu"],
            ),
            (
                "3/4 tasks in gang unschedulable: pod group is not ready, 1 Pipelined, 3 \
                 Unschedulable, 4 minAvailable",
                &["gang-incomplete"],
            ),
            (
                "pod group is not ready, 2 Pending, 2 minAvailable",
                &["gang-incomplete"],
            ),
            (
                "queue resource quota insufficient: insufficient nvidia.com/gpu",
                &["queue-quota"],
            ),
            (
                "research quota has reached the allowable limit of GPUs. Limit is 8 GPUs, currently \
                 6 GPUs allocated and workload requested 4 GPUs",
                &["queue-quota"],
            ),
            (
                "no nodes with enough resources were found: 2 node(s) had untolerated taint(s).\n5 \
                 node(s) didn't have enough resources: GPUs.",
                &["taint", "insufficient-gpu"],
            ),
            (
                "0/3 nodes are available: 1 2/8 CardInsufficientMemory, 2 node unregistered.",
                &["insufficient-gpu", "scheduler-other"],
            ),
            (
                "0/2 nodes are available: 2 NodeInsufficientDevice.",
                &["insufficient-gpu"],
            ),
            (
                "rejected due to timeout after waiting 1m0s at plugin Coscheduling",
                &["gang-incomplete"],
            ),
            ("gang is not ready", &["gang-incomplete"]),
            (
                "0/9 nodes are available: 5 Insufficient amd.com/cpx_nps4.",
                &["insufficient-gpu"],
            ),
            (
                "0/9 nodes are available: 5 Insufficient aliyun.com/gpu-mem.",
                &["insufficient-gpu"],
            ),
            (
                "0/9 nodes are available: 5 Insufficient volcano.sh/vgpu-memory.",
                &["insufficient-gpu"],
            ),
            (
                "0/9 nodes are available: 5 Insufficient GPU Memory in one device.",
                &["insufficient-gpu"],
            ),
            (
                "0/9 nodes are available: 5 Insufficient gpu devices.",
                &["insufficient-gpu"],
            ),
            (
                "0/9 nodes are available: 5 Insufficient rdma/hca.",
                &["insufficient-device"],
            ),
            (
                "0/9 nodes are available: 9 node(s) exceed max volume count.",
                &["volume-limit"],
            ),
            (
                "0/2 nodes are available: persistentvolumeclaim \"data\" is being deleted. \
                 preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
                &["claim-deleting"],
            ),
            (
                "0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the same \
                 name and ReadWriteOncePod access mode.",
                &["claim-in-use"],
            ),
            (
                "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded",
                &["claim-pending"],
            ),
            (
                "0/1 nodes are available: waiting for resource driver to allocate resource.",
                &["device-claim"],
            ),
            ("no nodes available to schedule pods", &["no-nodes"]),
            (
                "0/4 nodes are available: 1 node(s) had taint {dedicated: a, b}, that the pod didn't \
                 tolerate, 3 Insufficient cpu.",
                &["taint", "insufficient-cpu"],
            ),
            // A known fragment in an unknown sentence.
            (
                "this plugin had untolerated taint handling",
                &["scheduler-other"],
            ),
        ];
        for (message, words) in cases {
            let found: Vec<&str> = reasons(message).iter().map(|reason| reason.word).collect();
            assert_eq!(found, words, "{message}");
        }
    }
}
