//! What a queue says of a job that it does not let run. Words of Kueue 0.18 (pkg/scheduler,
//! pkg/controller/core).

use super::answer::Cause;
use super::facts::Facts;

/// Returns why its queue holds the job back.
pub(super) fn causes(facts: &Facts<'_>) -> Vec<Cause> {
    let job = facts.job;
    let queue = job.queue.as_deref().unwrap_or("its queue");
    let look = format!("gpuctl describe queue {queue} -n {}", job.namespace);
    let position = job.queue_position.map(|position| {
        let place = format!(
            "it is at place {position} of queue {queue}, and {} in all queues that share its quota",
            position.in_cluster_queue
        );
        (position.in_cluster_queue, place)
    });
    let Some(verdict) = &job.queue_verdict else {
        // Without the verdict a full queue, a stopped one and a missing one look the same.
        let behind = position.filter(|(place, _)| *place > 1);
        return behind
            .map(|(_, told)| Cause::new("queue-position", told, "queue"))
            .into_iter()
            .collect();
    };
    let message = verdict.message.as_str();
    let has = |words: &[&str]| words.iter().any(|words| message.contains(words));
    let cause = |word| Cause::new(word, format!("queue {queue}: {message}"), "queue");
    if has(&["doesn't exist", "not found", "does not exist"]) {
        let change = super::refused::set(facts, "job.queue=NAME");
        return vec![cause("queue-missing").helps(
            "choose a queue that there is: gpuctl get queues",
            Some(change),
        )];
    }
    if has(&[
        "is inactive",
        "is stopped",
        "StopPolicy",
        "can't admit new workloads",
    ]) {
        return vec![
            cause("queue-inactive").helps("whoever runs the queues must start it", Some(look)),
        ];
    }
    if verdict.reason == "AdmissionChecks" {
        return vec![cause("queue-checks").helps("see what the check says", Some(look))];
    }
    if has(&["maximum capacity"]) && !has(&["insufficient unused quota"]) {
        let never = cause("never-fits").and(
            format!("queue {queue} could not run it if it were empty"),
            "queue",
        );
        return vec![never.helps("ask for less, or for a larger quota", Some(look))];
    }
    let quota = cause("queue-quota").helps(
        "others in the queue must end, or the quota must grow",
        Some(look),
    );
    match position {
        Some((place, told))
            if place > 1 && verdict.reason == "Pending" && has(&["has not looked at it"]) =>
        {
            vec![Cause::new("queue-position", told, "queue")]
        }
        Some((place, told)) if place > 1 => {
            vec![quota, Cause::new("queue-position", told, "queue")]
        }
        _ => vec![quota],
    }
}
