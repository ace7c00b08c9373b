//! Explains why a queue does not admit a job. The messages are those of Kueue 0.18 (pkg/scheduler,
//! pkg/controller/core).

use super::answer::Cause;
use super::facts::Facts;
use gpuctl_core::model::QueueVerdict;

/// Explains why the job's queue has not admitted it.
pub(super) fn causes(facts: &Facts<'_>) -> Vec<Cause> {
    let job = facts.job;
    let queue = job.queue.as_deref().unwrap_or("its queue");
    let position = job.queue_position.map(|position| {
        let place = format!(
            "it is at position {position} in queue {queue}, and at {} across all queues that share its quota",
            position.in_cluster_queue
        );
        (position.in_cluster_queue, place)
    });
    let Some(verdict) = &job.queue_verdict else {
        // A full, a stopped and a missing queue look the same if the queue reports no reason.
        let behind = position.filter(|(place, _)| *place > 1);
        return behind
            .map(|(_, message)| Cause::new("queue-position", message, "queue"))
            .into_iter()
            .collect();
    };
    let quota = match admission_refusal(facts, verdict, queue) {
        AdmissionRefusal::Final(cause) => return vec![cause],
        AdmissionRefusal::Quota(cause) => cause,
    };
    let is_unseen = verdict.reason == "Pending" && verdict.message.contains("has not looked at it");
    match position.filter(|(place, _)| *place > 1) {
        Some((_, place)) if is_unseen => vec![Cause::new("queue-position", place, "queue")],
        Some((_, place)) => vec![quota, Cause::new("queue-position", place, "queue")],
        None => vec![quota],
    }
}

/// Why a queue does not admit a job.
enum AdmissionRefusal {
    /// Applies even to the first job in the queue.
    Final(Cause),
    /// The quota is exhausted, and other jobs may be ahead in the queue.
    Quota(Cause),
}

fn admission_refusal(facts: &Facts<'_>, verdict: &QueueVerdict, queue: &str) -> AdmissionRefusal {
    let describe = format!("gpuctl describe queue {queue} -n {}", facts.job.namespace);
    let message = verdict.message.as_str();
    let has = |words: &[&str]| words.iter().any(|words| message.contains(words));
    let cause = |word| Cause::new(word, format!("queue {queue}: {message}"), "queue");
    if has(&["doesn't exist", "not found", "does not exist"]) {
        let change = super::refused::set(facts, "job.queue=NAME");
        return AdmissionRefusal::Final(
            cause("queue-missing")
                .helps("use an existing queue (`gpuctl get queues`)", Some(change)),
        );
    }
    // Source: pkg/scheduler/scheduler.go.
    if has(&["namespace doesn't match ClusterQueue selector"]) {
        return AdmissionRefusal::Final(cause("queue-namespace").helps(
            "a queue administrator must change `namespaceSelector` of the ClusterQueue",
            Some(describe),
        ));
    }
    if has(&[
        "is inactive",
        "is stopped",
        "StopPolicy",
        "can't admit new workloads",
    ]) {
        return AdmissionRefusal::Final(
            cause("queue-inactive").helps("a queue administrator must start it", Some(describe)),
        );
    }
    if verdict.reason == "AdmissionChecks" {
        return AdmissionRefusal::Final(
            cause("queue-checks").helps("see the check's message", Some(describe)),
        );
    }
    if has(&["maximum capacity"]) && !has(&["insufficient unused quota"]) {
        let never = cause("never-fits").and(
            format!("queue {queue} could not run it even if it were empty"),
            "queue",
        );
        return AdmissionRefusal::Final(
            never.helps("request less, or ask for a larger quota", Some(describe)),
        );
    }
    AdmissionRefusal::Quota(cause("queue-quota").helps(
        "wait for other jobs in the queue to finish, or ask for a larger quota",
        Some(describe),
    ))
}
