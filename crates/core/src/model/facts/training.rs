//! Computes the state of trainings from the phases of their pods. `State::from_job` also passes
//! services and notebooks to `serving`.

use super::container_end::ContainerEnd;
use super::job::Job;
use super::job_pod::{Container, Pod, PodPhase};
use super::serving;
use super::state::{
    State, StateReason, Status, count, create_failure_reason, evicted, lost, pod_failure, pod_name,
    scheduler_words, stuck, why,
};

impl State {
    /// Computes the state of a job of any kind.
    pub fn from_job(job: &Job) -> Self {
        if job.kind.serves() {
            return serving::state(job);
        }
        let pods = job.current_pods();
        let running = match &job.remote {
            // Without `ready` (old API servers), an active pod may still wait.
            Some(remote) => remote.ready.unwrap_or(remote.active),
            None => count(&pods, |pod| {
                pod.phase == PodPhase::Running && !pod.deleting && pod.own_end().is_none()
            }),
        };
        // Succeeded pods may have been deleted, but the status of the Job still counts them.
        let done = count(&pods, |pod| pod.phase == PodPhase::Succeeded).max(job.pods_done);
        let (status, why) = if job.deleting {
            (Status::Terminating, None)
        // The Job controller adds `SuccessCriteriaMet` or `FailureTarget` once the outcome is
        // certain, but `Complete` or `Failed` only after all pods have terminated.
        } else if holds(job, &["Complete", "SuccessCriteriaMet"]).is_some() {
            (Status::Succeeded, None)
        } else if let Some(why) = holds(job, &["Failed", "FailureTarget"]) {
            (Status::Failed, Some(failure(job, why)))
        } else if job.suspended && job.queued && !job.held {
            (Status::Pending, Some(why("Queued", job.queue_words())))
        } else if job.suspended {
            (Status::Paused, None)
        } else if let Some(why) = pods.iter().find_map(|pod| lost(pod)) {
            (Status::Unknown, Some(why))
        } else if running + done >= job.pods_wanted && job.pods_wanted > 0 {
            (Status::Running, None)
        } else {
            (Status::Pending, Some(waiting(job, &pods)))
        };
        let (reason, message) = why_split(why);
        Self {
            status,
            reason,
            message,
            running,
            wanted: job.pods_wanted,
            counted: false,
        }
    }
}

fn why_split(why: Option<StateReason>) -> (Option<String>, Option<String>) {
    why.map_or((None, None), |(reason, message)| {
        (
            Some(reason),
            Some(message).filter(|message| !message.is_empty()),
        )
    })
}

fn holds(job: &Job, conditions: &[&str]) -> Option<StateReason> {
    conditions
        .iter()
        .find_map(|condition| job.conditions.get(*condition).cloned())
}

/// Returns the reason of the pod that caused the failure, which is more specific than the Job's
/// `BackoffLimitExceeded`.
fn failure(job: &Job, condition: StateReason) -> StateReason {
    // Consider pods of the current attempt first, because earlier failures led only to a retry.
    let mut present = job.current_pods();
    let mut earlier: Vec<&Pod> = job
        .pods
        .iter()
        .filter(|pod| !present.iter().any(|existing| existing.name == pod.name))
        .collect();
    earlier.sort_by(|a, b| (b.created_at, &b.name).cmp(&(a.created_at, &a.name)));
    // Within an attempt, the rank that ended first is the likely cause, because the other ranks
    // fail without it.
    present.sort_by_key(|pod| (pod.ended_at.is_none(), pod.ended_at));
    let ended: Vec<StateReason> = present
        .into_iter()
        .chain(earlier)
        .filter(|pod| pod.disrupted.is_none())
        .filter_map(pod_failure)
        .collect();
    // Several ranks can end within the same second. Prefer a specific reason to a plain `Error`,
    // which is often only a consequence.
    let specific = ended
        .iter()
        .find(|(reason, _)| reason != "Error")
        .or_else(|| ended.first());
    specific.cloned().unwrap_or(condition)
}

/// Explains why a job does not run, from the first pod with a known reason.
fn waiting(job: &Job, pods: &[&Pod]) -> StateReason {
    if let Some(remote) = &job.remote {
        return why("Remote", remote.to_string());
    }
    if let Some(why) = evicted(job) {
        return why;
    }
    if let Some((pod, sidecar)) = pods.iter().find_map(|pod| Some((pod, pod.sidecar_left()?))) {
        let message = format!(
            "{} ended with {}, but its container {sidecar} is still running and holds the GPUs",
            pod_name(pod),
            pod.own_end()
                .map(ContainerEnd::describe)
                .unwrap_or_default()
        );
        return why("SidecarRunning", message);
    }
    let bound: Vec<&&Pod> = pods.iter().filter(|pod| pod.holds()).collect();
    if let Some(container) = pods.iter().find_map(|pod| stuck(pod)) {
        return container;
    }
    let unscheduled = pods
        .iter()
        .filter(|pod| !pod.ended())
        .find_map(|pod| pod.unscheduled.as_ref());
    if let Some((reason, message)) = unscheduled {
        return waiting_for_node(job, bound.len(), reason, message);
    }
    // The event may be outdated, so use it only while pods are missing.
    let lacks_pods = count(pods, |pod| pod.phase != PodPhase::Failed) < job.pods_wanted;
    if let Some(message) = job.create_failure.as_deref().filter(|_| lacks_pods) {
        return why(create_failure_reason(message), message);
    }
    if let Some((_, (_, message))) = pods
        .iter()
        .find_map(|pod| pod_failure(pod).map(|why| (pod, why)))
    {
        return why(
            "Restarting",
            format!("{message}; up to {} retries", job.retries),
        );
    }
    if let Some((reason, message)) = &job.start_failure {
        return why(reason, message);
    }
    match pods.iter().find_map(|pod| {
        pod.containers
            .iter()
            .find_map(|container| container.waiting.as_ref())
    }) {
        Some((reason, message)) => why(reason, message),
        None if pods.iter().any(|pod| pod.deleting) => {
            why("Restarting", "a pod is terminating and will be replaced")
        }
        None if let Some(restarting) = pods.iter().find_map(|pod| restarted(pod)) => {
            why("Restarting", restarting)
        }
        None if pods.is_empty() => why("Creating", ""),
        None if bound.len() < pods.len() => why("Scheduling", ""),
        None => why("ContainerCreating", ""),
    }
}

/// Explains why an unscheduled pod holds back the job.
fn waiting_for_node(job: &Job, placed: usize, reason: &str, message: &str) -> StateReason {
    let message = scheduler_words(message);
    if placed == 0 {
        return why(reason, message);
    }
    let held = job.gpus_held();
    let message = format!(
        "{placed} of {} pods are placed and hold {held} of {} GPUs; the others do not fit: {message}",
        job.pods_wanted,
        job.gpus()
    );
    why("WaitingForPeers", message)
}

/// Describes a failed container that the kubelet is about to restart.
fn restarted(pod: &Pod) -> Option<String> {
    let ended =
        |container: &Container| Some((container.restarts, container.terminated.as_ref()?.code));
    let (restarts, code) = pod
        .containers
        .iter()
        .filter(|failed| failed.restarts > 0)
        .filter_map(ended)
        .find(|(_, code)| *code != 0)?;
    Some(format!(
        "{} exited with code {code}, {restarts} restarts",
        pod.name
    ))
}

#[cfg(test)]
mod tests;
