//! Explains the end of jobs whose pods or nodes cannot be seen: pods on silent nodes, deleted pods,
//! and jobs that are being deleted.

use super::answer::Cause;
use super::facts::Facts;
use super::pod_texts::node;
use super::rejections::outside_cause;
use gpuctl_core::model::facts::container_end::{SIGNALS, is_signal, signal_name};
use gpuctl_core::model::facts::state::lost;

/// Exit code of the rank supervisor, which the command does not use.
const SUPERVISOR: i32 = 113;

/// Condition reasons of a Job that has used up its retries.
pub(super) const EXHAUSTED: [&str; 4] = [
    "BackoffLimitExceeded",
    "MaxFailedIndexesExceeded",
    "FailedIndexes",
    "ReachedMaxRestarts",
];

/// Returns the cause for a pod on a node that does not respond.
pub(super) fn node_lost(facts: &Facts<'_>) -> Option<Cause> {
    let (pod, (_, message)) = facts
        .job
        .current_pods()
        .into_iter()
        .find_map(|pod| Some((pod, lost(pod)?)))?;
    let node = pod.node.clone().unwrap_or_default();
    let cause = Cause::new("node-lost", message, "pod")
        .helps("see the node", Some(format!("gpuctl describe node {node}")));
    if !facts.subject.is_managed {
        return Some(cause.helps(
            "delete the pod without waiting for the node, so that its controller can replace it",
            Some(format!(
                "kubectl delete pod {} -n {} --force",
                pod.name, facts.job.namespace
            )),
        ));
    }
    Some(cause.helps(
        "its pods can be recreated elsewhere",
        Some(format!("gpuctl restart job {}", facts.full_name())),
    ))
}

/// Derives the cause from the conditions of a Job whose pods are deleted.
pub(super) fn owner_gone(facts: &Facts<'_>, condition: Option<&(String, String)>) -> Vec<Cause> {
    let Some((reason, message)) = condition else {
        return Vec::new();
    };
    let time = facts.job.finished_at;
    // The message of a pod failure policy contains the exit code.
    let code = message.split_once("exit code ").map(|(_, rest)| {
        rest.split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or("")
    });
    let code = code.and_then(|code| code.parse::<i32>().ok());
    let supervised = code == Some(SUPERVISOR);
    let code = code.filter(|_| !supervised);
    vec![match (reason.as_str(), code) {
        (_, Some(code)) if is_signal(code) => Cause::new(
            "signal",
            format!(
                "a pod was killed by {} (exit code {code}); the job's pods are deleted",
                signal_name(code - SIGNALS)
            ),
            "job",
        )
        .when(time),
        (_, Some(code)) => Cause::new(
            "exit-code",
            format!("a pod exited with code {code}; the job's pods are deleted"),
            "job",
        )
        .when(time),
        (reason, None) if supervised || EXHAUSTED.contains(&reason) => Cause::new(
            "retries-exhausted",
            format!(
                "all retries were used ({message}); the job's pods are deleted, so the cause is unknown"
            ),
            "job",
        )
        .when(time),
        (_, None) if message.is_empty() => return Vec::new(),
        (reason, None) => Cause::new(
            "ended-other",
            format!("the job failed with {reason}: {message}; its pods are deleted"),
            "job",
        )
        .when(time)
        .helps("see its events", Some(describe(facts))),
    }]
}

/// The command that shows an object with its events.
fn describe(facts: &Facts<'_>) -> String {
    if facts.subject.is_managed {
        return format!("gpuctl describe job {}", facts.full_name());
    }
    format!(
        "kubectl describe {}/{} -n {}",
        facts.subject.kind, facts.job.name, facts.job.namespace
    )
}

/// Builds the cause for a job that is being deleted.
pub(super) fn deleted(facts: &Facts<'_>) -> Cause {
    let left = facts.job.pods.len();
    let text = if left == 0 {
        "it was deleted".to_owned()
    } else {
        format!("it was deleted; {left} of its pods are still terminating")
    };
    // Kueue deletes the pods that it stops, and keeps them until their workload has ended.
    let stopped = facts.job.pods.iter().find(|pod| pod.stopped.is_some());
    if let Some(cause) = stopped.and_then(|pod| outside_cause(facts, pod)) {
        return cause.and(text, "job");
    }
    let cause = Cause::new("deleted", text, "job");
    match facts.job.pods.iter().find(|pod| pod.is_lost()) {
        Some(pod) => cause
            .and(
                format!("node {} of {} does not respond", node(pod), pod.name),
                "pod",
            )
            .helps(
                "remove its pods without waiting for the node",
                Some(if facts.subject.is_managed {
                    format!("gpuctl delete job {} --force", facts.full_name())
                } else {
                    let namespace = &facts.job.namespace;
                    format!("kubectl delete pod {} -n {namespace} --force", pod.name)
                }),
            ),
        None => cause,
    }
}
