//! Explains pods on nodes that do not respond, are not ready or report another fault. The status of
//! such a pod stays what its kubelet reported last, so it seems to run.

use jiff::Timestamp;

use super::answer::Cause;
use super::durations::time_since;
use super::facts::Facts;
use super::nodes::taint_word;
use gpuctl_core::model::facts::state::{lost, pod_name};
use gpuctl_core::model::{Node, Pod, PodPhase};

/// Taint of a node whose kubelet does not respond, and of one that reports not to be ready.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Finds the living pods on nodes that do not respond or are not ready, including pods that were
/// deleted and cannot end there.
pub(super) fn causes(facts: &Facts<'_>) -> Vec<Cause> {
    let current = facts.job.current_pods();
    let stuck = facts.job.pods.iter().filter(|pod| pod.deleting);
    let pods = current.iter().copied().chain(stuck);
    let mut causes: Vec<Cause> = Vec::new();
    let mut nodes: Vec<(&'static str, &str)> = Vec::new();
    for pod in pods.filter(|pod| pod.holds()) {
        let Some(cause) = unready(facts, pod) else {
            continue;
        };
        let place = (cause.word, pod.node.as_deref().unwrap_or_default());
        if !nodes.contains(&place) {
            nodes.push(place);
        }
        if causes.iter().all(|other| other.word != cause.word) {
            causes.push(cause);
        }
    }
    for cause in &mut causes {
        let affected = nodes.iter().filter(|(word, _)| *word == cause.word).count();
        cause.nodes = Some(affected as u64).filter(|affected| *affected > 1);
    }
    causes
}

/// Explains a pod whose node does not respond or is not ready. Without the right to list nodes,
/// only the status of the pod shows that.
pub(super) fn unready(facts: &Facts<'_>, pod: &Pod) -> Option<Cause> {
    let name = pod.node.as_deref().filter(|_| !pod.ended())?;
    let node = node(facts, name);
    let taint = |key: &str| node.is_some_and(|node| node.taints.iter().any(|one| one.key == key));
    let fault = node
        .and_then(|node| node.fault.as_ref())
        .filter(|fault| fault.is_unready());
    let is_silent = fault.is_some_and(gpuctl_core::model::NodeFault::is_silence)
        || fault.is_none() && taint(UNREACHABLE);
    let since = fault.and_then(|fault| fault.since);
    let detail = fault.map_or("", |fault| {
        match fault.message.trim_end_matches(['.', ' ']) {
            "" => fault.reason.as_str(),
            message => message,
        }
    });
    let (word, state) = match () {
        () if is_silent => ("node-lost", duration("has not responded", since, facts.now)),
        () if fault.is_some() || taint(NOT_READY) => (
            "node-faulty",
            duration("has not been ready", since, facts.now),
        ),
        () if lost(pod).is_some() => ("node-lost", "does not respond".to_owned()),
        () => return None,
    };
    // A pod that has not started is only delayed.
    let word = if pod.phase == PodPhase::Pending && node.is_some() {
        "node-faulty"
    } else {
        word
    };
    let colon = if detail.is_empty() { "" } else { ": " };
    let seen_in = if node.is_some() { "inventory" } else { "pod" };
    let label = pod_name(pod);
    let text = if pod.deleting {
        format!(
            "{label} was deleted, but it does not end until its node {name} returns or somebody \
             deletes it by force: the node {state}{colon}{detail}"
        )
    } else {
        format!("node {name} of {label} {state}{colon}{detail}")
    };
    let cause = Cause::new(word, text, seen_in).when(since);
    Some(with_helps(facts, pod, name, cause))
}

fn with_helps(facts: &Facts<'_>, pod: &Pod, node: &str, cause: Cause) -> Cause {
    let cause = cause.helps("see the node", Some(format!("gpuctl describe node {node}")));
    let is_managed = facts.subject.is_managed;
    if pod.deleting {
        let command = match is_managed && facts.job.deleting {
            true => format!("gpuctl delete job {} --force", facts.full_name()),
            false => format!(
                "kubectl delete pod {} -n {} --force --grace-period=0",
                pod.name, facts.job.namespace
            ),
        };
        return cause.helps("delete it without waiting for the node", Some(command));
    }
    if !is_managed || pod.phase == PodPhase::Pending {
        return cause;
    }
    cause.helps(
        "its pods can be recreated elsewhere",
        Some(format!("gpuctl restart job {}", facts.full_name())),
    )
}

/// Finds nodes of running pods that report another fault, such as full disks or lost GPUs. The pods
/// may be affected or not.
pub(super) fn reported(facts: &Facts<'_>) -> Option<Cause> {
    facts.job.current_pods().into_iter().find_map(|pod| {
        let name = pod.node.as_deref().filter(|_| pod.holds())?;
        let fault = node(facts, name)?.fault.as_ref()?;
        let colon = if fault.message.is_empty() { "" } else { ": " };
        let status = match fault.status.as_str() {
            "True" => String::new(),
            status => format!(" {status}"),
        };
        let text = format!(
            "node {name} of {} reports {}{status}{colon}{}",
            pod_name(pod),
            fault.condition,
            fault.message.trim_end_matches(['.', ' '])
        );
        let describe = Some(format!("gpuctl describe node {name}"));
        let cause = Cause::new("node-faulty", text, "inventory").when(fault.since);
        Some(cause.helps("see the node", describe))
    })
}

/// Explains a pod that does not start because its node has a taint of Kubernetes for faults.
pub(super) fn tainted(facts: &Facts<'_>, pod: &Pod) -> Option<Cause> {
    let node = node(facts, pod.node.as_deref()?).filter(|_| pod.phase == PodPhase::Pending)?;
    let mut taints = node.taints.iter();
    let taint = taints.find(|taint| taint_word(&taint.key) == "node-faulty")?;
    let text = format!(
        "{} is on {}, which is unhealthy: {}",
        pod_name(pod),
        node.name,
        taint.key
    );
    let describe = format!("gpuctl describe node {}", node.name);
    Some(Cause::new("node-faulty", text, "inventory").helps("see the node", Some(describe)))
}

fn node<'f>(facts: &'f Facts<'_>, name: &str) -> Option<&'f Node> {
    facts.listed()?.iter().find(|node| node.name == name)
}

/// Formats a state with its duration, such as `has not responded for 14 min`.
fn duration(state: &str, since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(
        || state.to_owned(),
        |since| format!("{state} for {}", time_since(since, now)),
    )
}
