//! Explains pods that ended although their containers did not fail: the kubelet rejected or evicted
//! them, or Kubernetes or a queue stopped them. Unknown reasons are quoted.

use super::answer::Cause;
use super::evictions::evicted;
use super::facts::Facts;
use super::pod_texts::{ended_other, node};
use gpuctl_core::model::facts::state::pod_name;
use gpuctl_core::model::{Event, Pod};

/// Reasons of the kubelet's admission, apart from `OutOf` with the name of a resource. Source:
/// kubernetes 1.36, pkg/kubelet/lifecycle, pkg/kubelet/cm and pkg/kubelet/kubelet.go.
const REJECTIONS: [&str; 14] = [
    "UnexpectedAdmissionError",
    "UnexpectedPredicateFailureType",
    "TopologyAffinityError",
    "SMTAlignmentError",
    "InvalidNodeInfo",
    "NodeAdmissionError",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeUnschedulable",
    "TaintToleration",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "SysctlForbidden",
];
/// Beginning of the kubelet's message about a pod that it does not admit, since Kubernetes 1.28.
const REJECTED: &str = "Pod was rejected: ";

/// Why Kueue stopped a pod, by the reason of the condition without its prefix. Source: kueue 0.18,
/// apis/kueue/v1beta2/workload_types.go and pkg/controller/jobframework.
const QUEUE_REASONS: [(&str, &str); 12] = [
    ("Preempted", "another workload preempted it"),
    ("Preemption", "another workload preempted it"),
    ("PodsReadyTimeout", "its pods were not ready in time"),
    ("AdmissionCheck", "an admission check failed"),
    ("ClusterQueueStopped", "its ClusterQueue was stopped"),
    ("LocalQueueStopped", "its LocalQueue was stopped"),
    ("NodeFailures", "its node failed"),
    ("Deactivated", "its workload was deactivated"),
    (
        "MaximumExecutionTimeExceeded",
        "it ran longer than its maximum",
    ),
    ("WorkloadDeleted", "its workload was deleted"),
    ("NoMatchingWorkload", "no workload matches it"),
    ("NotAdmitted", "its workload is not admitted"),
];
const QUEUE_PREFIX: &str = "WorkloadEvictedDueTo";

/// Returns the cause for a pod that something other than its containers ended. `None` if only its
/// containers can tell.
pub(super) fn outside_cause(facts: &Facts<'_>, pod: &Pod) -> Option<Cause> {
    let pod_label = pod_name(pod);
    let message = pod.message.as_deref().unwrap_or("");
    let cause = |word, text: String| Cause::new(word, text, "pod").when(pod.ended_at);
    if let Some((reason, message)) = &pod.stopped {
        return Some(stopped_by_queue(facts, &pod_label, reason, message).when(pod.ended_at));
    }
    // The pod's reason is more specific than its condition `DisruptionTarget`: the kubelet sets
    // `TerminationByKubelet` for evictions, for critical pods and for shutdowns.
    match pod.reason.as_deref() {
        Some("NodeShutdown" | "Shutdown" | "Terminated" | "NodeLost") => Some(cause(
            "node-lost",
            format!("{pod_label}'s node {} went down: {message}", node(pod)),
        )),
        Some("Preempting") => Some(critical(facts, pod, message)),
        Some("Evicted") => Some(evicted(facts, pod, message, "pod").when(pod.ended_at)),
        Some("DeadlineExceeded") => {
            let limit = if facts.subject.is_managed {
                "`job.max_runtime`"
            } else {
                "its deadline (activeDeadlineSeconds)"
            };
            let text = format!("{pod_label} ran longer than {limit}");
            Some(deadline(facts, &text, "pod").when(pod.ended_at))
        }
        Some(reason) if is_rejection(reason, message) => {
            Some(rejected(pod, reason, message).when(pod.ended_at))
        }
        reason => pod
            .disrupted
            .as_deref()
            .map(|disruption| disrupted(facts, pod, disruption))
            .or_else(|| reason.map(|reason| other(facts, pod, reason, message))),
    }
}

/// Whether a reason of a failed pod is the kubelet's refusal to start it.
pub(super) fn is_rejection(reason: &str, message: &str) -> bool {
    let lacks_resource = reason
        .strip_prefix("OutOf")
        .is_some_and(|name| !name.is_empty());
    lacks_resource || REJECTIONS.contains(&reason) || message.starts_with(REJECTED)
}

/// The cause of a pod that its node did not admit after the scheduler had chosen it.
fn rejected(pod: &Pod, reason: &str, message: &str) -> Cause {
    let message = message.strip_prefix(REJECTED).unwrap_or(message).trim();
    let detail = if message.is_empty() { reason } else { message };
    let reason_note = if message.is_empty() || message.contains(reason) {
        String::new()
    } else {
        format!(" ({reason})")
    };
    let text = format!(
        "node {} rejected {}{reason_note}: {detail}",
        node(pod),
        pod_name(pod)
    );
    let cause = Cause::new("admission-failed", text, "pod");
    let describe = pod
        .node
        .as_ref()
        .map(|node| format!("gpuctl describe node {node}"));
    let advice = match reason {
        "TopologyAffinityError" => {
            "its CPUs and devices do not fit into one NUMA node: request fewer of them, or ask for another topology manager policy"
        }
        "SMTAlignmentError" => "request whole physical cores, such as an even number of CPUs",
        "NodeAffinity" | "TaintToleration" | "NodeUnschedulable" => {
            "the node changed after the scheduler had chosen it: see its labels and taints"
        }
        _ if reason.starts_with("OutOf") => {
            "the node has less than the scheduler expected: compare its capacity and its pods"
        }
        _ => "see the node",
    };
    cause.helps(advice, describe)
}

/// The cause of a pod that the kubelet ended to admit a critical pod. A higher priority of the job
/// does not prevent it.
fn critical(facts: &Facts<'_>, pod: &Pod, message: &str) -> Cause {
    let text = format!(
        "{} was preempted by its node {} for a critical pod: {message}",
        pod_name(pod),
        node(pod)
    );
    let describe = pod
        .node
        .as_ref()
        .map(|node| format!("gpuctl describe node {node}"));
    let cause = Cause::new("preempted", text, "pod").when(pod.ended_at);
    let cause = cause.helps("see which critical pods the node runs", describe);
    if facts.subject.is_managed {
        return cause.helps(
            "run it again",
            Some(format!("gpuctl restart job {}", facts.full_name())),
        );
    }
    cause
}

/// The cause of a pod that Kueue stopped.
fn stopped_by_queue(facts: &Facts<'_>, pod_label: &str, reason: &str, message: &str) -> Cause {
    let short = reason.strip_prefix(QUEUE_PREFIX).unwrap_or(reason);
    let known = QUEUE_REASONS.iter().find(|(known, _)| *known == short);
    let why = known.map_or_else(|| reason.to_owned(), |(_, why)| (*why).to_owned());
    let quoted = if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    };
    let text = format!("{pod_label} was stopped by its queue (Kueue), because {why}{quoted}");
    let text = match known {
        Some(_) => text,
        None => format!("{pod_label} was stopped by its queue (Kueue): {reason}{quoted}"),
    };
    let queues = format!("gpuctl get queues -n {}", facts.job.namespace);
    Cause::new("queue-evicted", text, "pod").helps("see the queue", Some(queues))
}

/// The cause of a pod with the condition `DisruptionTarget`. Source: kubernetes 1.36, the users of
/// `v1.DisruptionTarget`.
fn disrupted(facts: &Facts<'_>, pod: &Pod, reason: &str) -> Cause {
    let pod_label = pod_name(pod);
    let message = pod
        .disruption
        .as_deref()
        .or(pod.message.as_deref())
        .unwrap_or("");
    let cause = |word, text: String| Cause::new(word, text, "pod").when(pod.ended_at);
    match reason {
        "PreemptionByScheduler" | "PreemptionByKubeScheduler" => {
            cause("preempted", preempted(facts, pod, &pod_label)).helps(
                "raise its priority, so that the other job does not preempt it",
                Some(super::refused::set(facts, "job.priority=high")),
            )
        }
        "DeletionByTaintManager" | "DeletionByPodGC" => cause(
            "node-lost",
            format!(
                "{pod_label} was terminated because its node {} stopped responding, was deleted, or was tainted NoExecute",
                node(pod)
            ),
        ),
        "DeletionByDeviceTaintManager" => cause(
            "device-taint",
            format!("{pod_label} was terminated because a device that it claims was tainted"),
        )
        .helps(
            "list the tainted devices",
            Some("kubectl get resourceslices -o yaml".to_owned()),
        ),
        "EvictionByEvictionAPI" => cause(
            "node-drained",
            format!(
                "{pod_label} was evicted from {}: its node was drained, or it was evicted through the API",
                node(pod)
            ),
        ),
        "TerminationByKubelet" if message.contains("critical pod") => critical(facts, pod, message),
        "TerminationByKubelet" if message.contains("node shutdown") => cause(
            "node-lost",
            format!("{pod_label}'s node {} went down: {message}", node(pod)),
        ),
        "TerminationByKubelet" => evicted(facts, pod, message, "pod").when(pod.ended_at),
        _ => other(facts, pod, reason, message),
    }
}

/// Quotes a reason that gpuctl does not know.
fn other(facts: &Facts<'_>, pod: &Pod, reason: &str, message: &str) -> Cause {
    let quoted = match (reason, message) {
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    ended_other(
        facts,
        pod,
        &format!("{} ended: {quoted}", pod_name(pod)),
        "pod",
    )
}

/// Describes a preemption, and names the preempting pod if an event does.
fn preempted(facts: &Facts<'_>, pod: &Pod, pod_label: &str) -> String {
    let object = format!("Pod/{}", pod.name);
    let is_preemption = |event: &&Event| event.reason == "Preempted" && event.object == object;
    let event = facts.events.into_iter().flatten().rev().find(is_preemption);
    let detail = event.map_or(String::new(), |event| format!(": {}", event.message));
    format!(
        "{pod_label} was preempted on {} by a higher-priority pod{detail}",
        node(pod)
    )
}

pub(super) fn deadline(facts: &Facts<'_>, text: &str, seen_in: &'static str) -> Cause {
    let cause = Cause::new("deadline", text, seen_in).when(facts.job.finished_at);
    cause.helps(
        "allow it more time",
        Some(super::refused::set(facts, "job.max_runtime=TIME")),
    )
}
