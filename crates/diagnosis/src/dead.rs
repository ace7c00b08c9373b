//! Explains what ended a job: the rank that failed first, with its exit code or signal, or an
//! external cause.

use jiff::Timestamp;

use super::answer::Cause;
use super::ends::{end, pod_cause};
use super::facts::{DeviceError, Facts};
use super::gone::{EXHAUSTED, node_lost, owner_gone};
use super::rejections::deadline;
use gpuctl_core::model::facts::container_end::SIGNALS;
use gpuctl_core::model::facts::state::pod_name;
use gpuctl_core::model::{ContainerEnd, Job, Pod, PodPhase};
use gpuctl_core::stats::exporters::xid::{self, XidAction};

/// Exit codes of ranks that end after a peer has failed: interrupted (SIGINT), aborted by NCCL's
/// watchdog (SIGABRT), terminated (SIGTERM).
const PEER_CODES: [i32; 3] = [130, 134, 143];
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
    let (ended, present) = ended_pods(job);
    let Some(first) = culprit(facts, &ended, &present) else {
        return owner_gone(facts, condition);
    };
    let mut cause = pod_cause(facts, first);
    if let Some(rival) = rival(facts, &ended, &present, first) {
        cause = cause.and(rival, "pod");
    }
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

/// Returns the failed pods, those of the last attempt first, ordered by the time at which they
/// ended, and the names of the pods of that attempt. After the first failure, its peers fail
/// because they lost that rank.
fn ended_pods(job: &Job) -> (Vec<&Pod>, Vec<&str>) {
    let present: Vec<&str> = job
        .current_pods()
        .iter()
        .map(|pod| pod.name.as_str())
        .collect();
    let mut ended: Vec<&Pod> = job
        .pods
        .iter()
        .filter(|pod| pod.phase == PodPhase::Failed)
        .collect();
    ended.sort_by_key(|pod| {
        (
            !present.contains(&pod.name.as_str()),
            pod.ended_at.is_none(),
            pod.ended_at,
            pod.rank,
        )
    });
    (ended, present)
}

/// Adds the owner's message, the last log lines, and device errors that are not the cause as
/// evidence.
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
    for error in facts.faults.iter().filter(|error| !is_fault(error)) {
        let (device, code) = (&error.device, xid::describe(error.code));
        let text = if error.is_dated {
            format!("{device} reported {code} within five minutes of the failure")
        } else {
            format!("{device} reports {code}, but its samples do not show since when")
        };
        cause = cause.and(text, "prometheus");
    }
    cause
}

/// Whether a device error explains the end of the pods on the device.
fn is_fault(error: &DeviceError) -> bool {
    error.is_dated && xid::ends_programs(error.code)
}

/// Returns the cause for an error of one of the pod's devices.
fn gpu_fault(facts: &Facts<'_>, pod: &Pod) -> Option<Cause> {
    let faults = || facts.faults.iter().filter(|error| is_fault(error));
    let error = faults()
        .find(|error| xid::is_fatal(error.code))
        .or_else(|| faults().next())?;
    let entry = xid::find(error.code)?;
    let text = format!(
        "{}, which {} used, reported XID {} within five minutes of the failure: {}",
        error.device,
        pod_name(pod),
        error.code,
        entry.meaning
    );
    let cause = Cause::new("gpu-fault", text, "prometheus").when(pod.ended_at);
    let advice = entry.action.advice().unwrap_or_default();
    if entry.action == XidAction::Restart {
        let restart = facts
            .subject
            .is_managed
            .then(|| format!("gpuctl restart job {}", facts.full_name()));
        return Some(cause.helps(format!("NVIDIA recommends: {advice}"), restart));
    }
    let elsewhere = pod
        .node
        .as_ref()
        .map(|node| super::refused::set(facts, &format!("resources.exclude_nodes={node}")));
    let text = format!("exclude the node, and tell its administrator; NVIDIA recommends: {advice}");
    Some(cause.helps(text, elsewhere))
}

/// Returns the pod that failed first in the last attempt of a job.
pub fn first_failed(job: &Job) -> Option<&Pod> {
    let (ended, present) = ended_pods(job);
    first_pod(&candidates(&ended, &present))
}

/// The pods of the last attempt. Skips earlier attempts: they were retried, so their failures did
/// not end the job.
fn candidates<'p>(ended: &[&'p Pod], present: &[&str]) -> Vec<&'p Pod> {
    let is_present = |pod: &&&Pod| present.contains(&pod.name.as_str());
    let now: Vec<&Pod> = ended.iter().filter(is_present).copied().collect();
    if now.is_empty() { ended.to_vec() } else { now }
}

/// Returns the pod that failed first. The logs decide between pods that failed in the same second,
/// because Kubernetes records no smaller unit.
fn culprit<'p>(facts: &Facts<'_>, ended: &[&'p Pod], present: &[&str]) -> Option<&'p Pod> {
    let pods = candidates(ended, present);
    let first = first_pod(&pods)?;
    let logged = facts
        .last_messages
        .iter()
        .find_map(|line| line.pod.as_ref());
    let earlier = pods
        .iter()
        .find(|pod| Some(&pod.name) == logged && is_same_second(pod, first) && !has_reason(first));
    Some(earlier.copied().unwrap_or(first))
}

fn is_same_second(pod: &Pod, other: &Pod) -> bool {
    let second = |pod: &Pod| pod.ended_at.map(Timestamp::as_second);
    second(pod) == second(other)
}

/// Returns the pod that failed first. Among pods that failed in the same second, prefers one with a
/// specific reason.
fn first_pod<'p>(ended: &[&'p Pod]) -> Option<&'p Pod> {
    // A pod that was evicted before it ran has no end time. It comes first, because its peers fail
    // without it.
    let timeless = ended
        .iter()
        .find(|pod| pod.ended_at.is_none() && is_ended_from_outside(pod));
    if let Some(pod) = timeless {
        return Some(pod);
    }
    let first = *ended.first()?;
    // The supervisor of every rank records which rank failed first, and only that rank has its own
    // exit code.
    if let Some(rank) = end(first).and_then(ContainerEnd::supervised_rank)
        && let Some(pod) = ended.iter().find(|pod| pod.rank == Some(rank))
    {
        return Some(pod);
    }
    let failed_itself = |pod: &&&Pod| is_same_second(pod, first) && has_reason(pod);
    if has_reason(first) {
        Some(first)
    } else {
        ended.iter().find(failed_itself).copied().or(Some(first))
    }
}

fn is_ended_from_outside(pod: &Pod) -> bool {
    pod.disrupted.is_some() || pod.reason.is_some() || pod.stopped.is_some()
}

fn has_reason(pod: &Pod) -> bool {
    is_ended_from_outside(pod)
        || end(pod).is_some_and(|end| {
            end.reason != "Error" || end.code > SIGNALS && !PEER_CODES.contains(&end.code)
        })
}

/// Describes a pod that ended in the same second as the first one, with another exit code: either
/// may have failed first.
fn rival(facts: &Facts<'_>, ended: &[&Pod], present: &[&str], first: &Pod) -> Option<String> {
    let is_logged = facts.last_messages.iter().any(|line| line.pod.is_some());
    let own = end(first).filter(|end| !has_reason(first) && end.supervised_rank().is_none());
    let own = own.filter(|_| !is_logged)?.code;
    let pods = candidates(ended, present);
    let (pod, end) = pods
        .into_iter()
        .filter(|pod| pod.name != first.name && is_same_second(pod, first))
        .filter_map(|pod| Some((pod, end(pod)?)))
        .find(|(_, end)| end.code != own && !PEER_CODES.contains(&end.code))?;
    let code = end.code;
    Some(format!(
        "{} exited with code {code} in the same second, and may have failed first",
        pod_name(pod)
    ))
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
