//! Computes the state of services and notebooks from the readiness of their pods.

use super::job::Job;
use super::job_pod::{Container, Pod, PodPhase};
use super::state::{
    State, StateReason, Status, create_failure_reason, evicted, lost, not_started, scheduler_words,
    stuck, why,
};

/// Computes the state of a service or notebook.
pub(crate) fn state(job: &Job) -> State {
    // Ignore ended pods, such as evicted ones, because the controller has replaced them.
    let pods: Vec<&Pod> = job.pods.iter().filter(|pod| !pod.ended()).collect();
    let ready = pods.iter().filter(|pod| job.serves_with(pod)).count();
    let ready = u32::try_from(ready).unwrap_or(u32::MAX);
    let (status, why) = if job.deleting {
        (Status::Terminating, None)
    } else if job.suspended {
        (Status::Paused, None)
    } else if ready >= job.pods_wanted {
        (
            Status::Running,
            // A service can have a problem even if all wanted pods are ready, for example a rollout
            // without progress.
            trouble(job, &pods)
                .map(|why| degraded(job, ready, why))
                .or_else(|| rollout(job, &pods)),
        )
    } else if ready > 0 {
        let why = trouble(job, &pods).map(|why| degraded(job, ready, why));
        (
            Status::Running,
            Some(
                why.or_else(|| rollout(job, &pods))
                    .unwrap_or_else(|| beginning(job, &pods)),
            ),
        )
    } else if let Some(why) = pods.iter().find_map(|pod| lost(pod)) {
        (Status::Unknown, Some(why))
    } else {
        (
            Status::Pending,
            Some(trouble(job, &pods).unwrap_or_else(|| beginning(job, &pods))),
        )
    };
    let (reason, message) = why.unzip();
    let message = message.filter(|message| !message.is_empty());
    State {
        status,
        reason,
        message,
        running: ready,
        wanted: job.pods_wanted,
        counted: job.kind.is_replicated(),
    }
}

/// Describes a service with some ready pods, and the problem of the others.
fn degraded(job: &Job, ready: u32, (reason, message): StateReason) -> StateReason {
    let detail = if message.is_empty() {
        reason
    } else {
        format!("{reason}: {message}")
    };
    why(
        "Degraded",
        format!("{ready} of {} pods are ready; {detail}", job.pods_wanted),
    )
}

/// Returns the first problem that will not resolve without intervention.
fn trouble(job: &Job, pods: &[&Pod]) -> Option<StateReason> {
    if let Some(why) = pods.iter().find_map(|pod| lost(pod)) {
        return Some(why);
    }
    if let Some(why) = evicted(job) {
        return Some(why);
    }
    let present: Vec<&&Pod> = pods.iter().filter(|pod| !pod.deleting).collect();
    if let Some(why) = present
        .iter()
        .find_map(|pod| crashing(job, pod).or_else(|| stuck(pod)))
    {
        return Some(why);
    }
    if let Some((reason, message)) = present.iter().find_map(|pod| pod.unscheduled.as_ref()) {
        return Some(match &job.pinned {
            // Kueue holds back pods of services through a scheduling gate.
            _ if job.queued && reason == "SchedulingGated" => why("Queued", job.queue_words()),
            Some(node) => {
                let release = format!(
                    "run `gpuctl resume job {}/{} --anywhere` to release it",
                    job.namespace, job.name
                );
                why(
                    reason,
                    format!(
                        "{}; its files are on {node}; {release}",
                        scheduler_words(message)
                    ),
                )
            }
            None => why(reason, scheduler_words(message)),
        });
    }
    if let Some((reason, message)) = &job.start_failure {
        return Some(why(reason, message));
    }
    if let Some(message) = job
        .create_failure
        .as_deref()
        // The event may be outdated, so use it only while pods are missing.
        .filter(|_| present.len() < job.pods_wanted as usize)
    {
        return Some(why(create_failure_reason(message), message));
    }
    let unhealthy = |pod: &&&Pod| {
        !pod.ready
            && pod.phase == PodPhase::Running
            && pod.containers.iter().all(|container| container.started)
    };
    let pod = present
        .iter()
        .find(|pod| job.checked && unhealthy(pod) && !pod.containers.is_empty())?;
    Some(why(
        "Unhealthy",
        format!("{} is running, but fails its health check", pod.name),
    ))
}

/// Describes a container that keeps crashing, with its last exit.
fn crashing(job: &Job, pod: &Pod) -> Option<StateReason> {
    let ends = |container: &&Container| {
        let waits = container
            .waiting
            .as_ref()
            .is_some_and(|(reason, _)| reason == "CrashLoopBackOff");
        // After a crash, a running container that is not ready is restarting. But if its startup
        // probe has succeeded, the failing probe is the current problem.
        let loads = !(job.checked && container.started);
        let is_reloading =
            container.running && container.last_ended.is_some() && !pod.ready && loads;
        waits || is_reloading || container.terminated.is_some()
    };
    let container = pod.containers.iter().find(ends)?;
    let restarts = match container.restarts {
        1 => "1 restart".to_owned(),
        number => format!("{number} restarts"),
    };
    let message = match container
        .terminated
        .as_ref()
        .or(container.last_ended.as_ref())
    {
        Some(end) if end.reason == "OOMKilled" => {
            format!(
                "{} ran out of memory (exit code {}), {restarts}",
                pod.name, end.code
            )
        }
        Some(end) if end.never_started() => format!("{}, {restarts}", not_started(&pod.name, end)),
        Some(end) => format!("{} exited with code {}, {restarts}", pod.name, end.code),
        None => format!("{} keeps exiting, {restarts}", pod.name),
    };
    let reason = if container.waiting.is_some() {
        "CrashLoopBackOff"
    } else {
        "Restarting"
    };
    Some(why(reason, message))
}

/// Reports a rollout while pods of two versions exist, or before the controller has observed the
/// newest specification.
fn rollout(job: &Job, pods: &[&Pod]) -> Option<StateReason> {
    let mut revisions: Vec<&str> = pods
        .iter()
        .filter_map(|pod| pod.revision.as_deref())
        .collect();
    revisions.sort_unstable();
    revisions.dedup();
    (job.rolling_out || revisions.len() > 1)
        .then(|| why("RollingOut", "a new version is replacing the old one"))
}

/// Describes the progress of a starting pod.
fn beginning(job: &Job, pods: &[&Pod]) -> StateReason {
    let present: Vec<&&Pod> = pods
        .iter()
        .filter(|pod| !pod.deleting && !pod.ready)
        .collect();
    let waiting = present.iter().find_map(|pod| {
        pod.containers
            .iter()
            .find_map(|container| container.waiting.clone())
    });
    if pods.is_empty() {
        why("Creating", "")
    } else if present.is_empty() {
        why("Restarting", "a pod is terminating and will be replaced")
    } else if present.iter().any(|pod| pod.node.is_none()) {
        why("Scheduling", "")
    } else if let Some(waiting) = waiting {
        waiting
    } else if present.iter().any(|pod| pod.phase == PodPhase::Running) {
        match job.port.filter(|_| !job.checked) {
            Some(port) => why(
                "Starting",
                format!("nothing is listening on port {port} yet"),
            ),
            None => why("Starting", "its startup check has not passed yet"),
        }
    } else {
        why("ContainerCreating", "")
    }
}

#[cfg(test)]
mod tests;
