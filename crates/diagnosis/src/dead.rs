//! Explains what ended a job: the rank that failed first, with its exit code or signal, or an
//! external cause. Falls back to the Job's status if the pods are deleted.

use jiff::Timestamp;

use super::answer::Cause;
use super::ends::{SIGNALS, deadline, end, is_signal, node, pod_cause, signal};
use super::facts::Facts;
use gpuctl_core::model::facts::state::{lost, pod_name};
use gpuctl_core::model::{Pod, PodPhase};
use gpuctl_core::stats::exporters::dialect::is_fatal_xid;

/// Exit codes of ranks that end after a peer has failed: interrupted (SIGINT), aborted by NCCL's
/// watchdog (SIGABRT), terminated (SIGTERM).
const PEER_CODES: [i32; 3] = [130, 134, 143];
/// Exit code of the rank supervisor, which the command does not use.
const SUPERVISOR: i32 = 113;

/// Condition reasons of a Job that has used up its retries.
const EXHAUSTED: [&str; 4] = [
    "BackoffLimitExceeded",
    "MaxFailedIndexesExceeded",
    "FailedIndexes",
    "ReachedMaxRestarts",
];

/// Returns what ended the job, with the cause of the earliest failure first.
pub(super) fn causes(facts: &Facts<'_>) -> Vec<Cause> {
    let job = facts.job;
    let condition = ["Failed", "FailureTarget"]
        .iter()
        .find_map(|kind| job.conditions.get(*kind));
    // Once the Job has failed, a lost node no longer matters.
    if condition.is_none()
        && let Some(cause) = node_lost(facts)
    {
        return vec![cause];
    }
    let reason = condition.map_or("", |(reason, _)| reason.as_str());
    if reason == "DeadlineExceeded" {
        return vec![deadline(
            facts,
            "the job ran longer than `job.max_runtime`",
            "job",
        )];
    }
    // Sort the pods of the current attempt first, by the time at which they ended. After the first
    // failure, its peers fail because they lost that rank.
    let present: Vec<&str> = job
        .current_pods()
        .iter()
        .map(|pod| pod.name.as_str())
        .collect();
    let is_present = |pod: &Pod| present.contains(&pod.name.as_str());
    let mut ended: Vec<&Pod> = job
        .pods
        .iter()
        .filter(|pod| pod.phase == PodPhase::Failed)
        .collect();
    ended.sort_by_key(|pod| {
        (
            !is_present(pod),
            pod.ended_at.is_none(),
            pod.ended_at,
            pod.rank,
        )
    });
    // Skip earlier attempts: they were retried, so their failures did not end the job.
    let now: Vec<&Pod> = ended
        .iter()
        .copied()
        .filter(|pod| is_present(pod))
        .collect();
    let Some(first) = culprit(if now.is_empty() { &ended } else { &now }) else {
        return owner_gone(facts, condition);
    };
    let mut cause = pod_cause(facts, first);
    if let Some(peers) = peers(&ended, &present, first) {
        cause = cause.and(peers, "pod");
    }
    let mut causes = vec![with_evidence(facts, condition, cause)];
    let fault = gpu_fault(facts, first).or_else(|| super::devices::unhealthy(facts, first));
    if let Some(fault) = fault {
        causes.insert(0, fault);
    }
    if job.retries > 0 && EXHAUSTED.contains(&reason) {
        causes.push(exhausted(facts, &ended, first));
    }
    causes
}

/// Returns the cause for a pod on a node that does not respond.
fn node_lost(facts: &Facts<'_>) -> Option<Cause> {
    let (pod, (_, message)) = facts
        .job
        .current_pods()
        .into_iter()
        .find_map(|pod| Some((pod, lost(pod)?)))?;
    let node = pod.node.clone().unwrap_or_default();
    let cause = Cause::new("node-lost", message, "pod")
        .helps("see the node", Some(format!("gpuctl describe node {node}")));
    Some(cause.helps(
        "its pods can be recreated elsewhere",
        Some(format!("gpuctl restart job {}", facts.full_name())),
    ))
}

/// Adds the owner's message, the last log lines and non-fatal device errors as evidence.
fn with_evidence(
    facts: &Facts<'_>,
    condition: Option<&(String, String)>,
    mut cause: Cause,
) -> Cause {
    // Pods of foreign workloads belong to intermediate objects, whose failures the owner
    // summarizes.
    if let Some((_, message)) =
        condition.filter(|(_, message)| !facts.subject.is_managed && !message.is_empty())
    {
        cause = cause.and(message.clone(), "job");
    }
    for line in &facts.last_messages {
        cause = cause.and(line.text.clone(), "logs").when(line.at);
    }
    for (device, code) in facts.faults.iter().filter(|(_, code)| !is_fatal_xid(*code)) {
        cause = cause.and(
            format!("{device} reported XID {code} within five minutes of the failure"),
            "prometheus",
        );
    }
    cause
}

/// Returns the cause for a fatal error of one of the pod's devices.
fn gpu_fault(facts: &Facts<'_>, pod: &Pod) -> Option<Cause> {
    let (device, code) = facts.faults.iter().find(|(_, code)| is_fatal_xid(*code))?;
    let text = format!(
        "{device}, which {} used, reported XID {code} within five minutes of the failure",
        pod_name(pod)
    );
    let elsewhere = pod
        .node
        .as_ref()
        .map(|node| super::refused::set(facts, &format!("resources.exclude_nodes={node}")));
    Some(
        Cause::new("gpu-fault", text, "prometheus")
            .when(pod.ended_at)
            .helps("exclude the node, and tell its administrator", elsewhere),
    )
}

/// Returns the pod that failed first. Among pods that failed in the same second, prefers one with a
/// specific reason.
fn culprit<'p>(ended: &[&'p Pod]) -> Option<&'p Pod> {
    // A pod that was evicted before it ran has no end time. It comes first, because its peers fail
    // without it.
    let timeless = ended
        .iter()
        .find(|pod| pod.ended_at.is_none() && (pod.disrupted.is_some() || pod.reason.is_some()));
    if let Some(pod) = timeless {
        return Some(pod);
    }
    let first = *ended.first()?;
    let failed_itself = |pod: &&&Pod| {
        let second = |time: Option<Timestamp>| time.map(Timestamp::as_second);
        second(pod.ended_at) == second(first.ended_at) && has_reason(pod)
    };
    if has_reason(first) {
        Some(first)
    } else {
        ended.iter().find(failed_itself).copied().or(Some(first))
    }
}

fn has_reason(pod: &Pod) -> bool {
    pod.disrupted.is_some()
        || pod.reason.is_some()
        || end(pod).is_some_and(|end| {
            end.reason != "Error" || end.code > SIGNALS && !PEER_CODES.contains(&end.code)
        })
}

/// Describes how the ranks other than the first one ended.
fn peers(ended: &[&Pod], present: &[&str], first: &Pod) -> Option<String> {
    let others: Vec<&&Pod> = ended
        .iter()
        .filter(|pod| pod.rank.is_some() && pod.rank != first.rank)
        .filter(|pod| present.contains(&pod.name.as_str()) && pod.ended_at >= first.ended_at)
        .collect();
    let last = others.iter().filter_map(|pod| pod.ended_at).max()?;
    let after = first.ended_at.map(|at| last.as_second() - at.as_second())?;
    let codes: Vec<String> = others
        .iter()
        .filter_map(|pod| end(pod))
        .map(|end| end.command_code().to_string())
        .collect();
    let code = codes
        .first()
        .filter(|first| codes.iter().all(|code| code == *first));
    let code = code.map_or(String::new(), |code| format!(" with code {code}"));
    let ranks = if others.len() == 1 {
        "1 other rank".to_owned()
    } else {
        format!("{} other ranks", others.len())
    };
    Some(format!("{ranks} exited{code} within {after} s of it"))
}

fn exhausted(facts: &Facts<'_>, ended: &[&Pod], first: &Pod) -> Cause {
    let tries: Vec<String> = ended
        .iter()
        .filter(|pod| pod.rank == first.rank)
        .take(4)
        .map(|pod| pod_cause(facts, pod).word.to_owned())
        .collect();
    let text = format!(
        "all {} retries were used; its attempts failed with {}",
        facts.job.retries,
        tries.join(", ")
    );
    Cause::new("retries-exhausted", text, "job").when(facts.job.finished_at)
}

/// Derives the cause from the conditions of a Job whose pods are deleted.
fn owner_gone(facts: &Facts<'_>, condition: Option<&(String, String)>) -> Vec<Cause> {
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
                signal(code - SIGNALS)
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
        _ => return Vec::new(),
    }]
}

/// Builds the cause for a job that is being deleted.
pub(super) fn deleted(facts: &Facts<'_>) -> Cause {
    let left = facts.job.pods.len();
    let text = if left == 0 {
        "it was deleted".to_owned()
    } else {
        format!("it was deleted; {left} of its pods are still terminating")
    };
    let cause = Cause::new("deleted", text, "job");
    match facts.job.pods.iter().find(|pod| pod.is_lost()) {
        Some(pod) => cause
            .and(
                format!("node {} of {} does not respond", node(pod), pod.name),
                "pod",
            )
            .helps(
                "remove its pods without waiting for the node",
                Some(format!("gpuctl delete job {} --force", facts.full_name())),
            ),
        None => cause,
    }
}
