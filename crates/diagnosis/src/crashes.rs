//! Explains containers that exit and are started again, of any pod: a main container, a sidecar or
//! an init container.

use super::answer::Cause;
use super::durations::time_since;
use super::ends;
use super::facts::Facts;
use super::pod_texts::container_label;
use gpuctl_core::model::values::text::count;
use gpuctl_core::model::{Container, Pod, PodPhase};

/// Seconds that a container must run until the kubelet forgets its earlier exits (Kubernetes
/// documentation, Pod Lifecycle: "after 10 minutes of execution without any problems").
const STEADY: i64 = 600;
/// Number of restarts after which a container that runs again has probably not recovered.
const MANY: u32 = 3;

/// Explains a container that has exited, although its pod still runs.
pub(super) fn exited(facts: &Facts<'_>, pod: &Pod) -> Vec<Cause> {
    let failed = |container: &&Container| {
        let end = container.terminated.as_ref();
        end.is_some_and(|end| end.code != 0)
            && (pod.phase == PodPhase::Running
                || pod.phase == PodPhase::Pending && container.is_init)
    };
    // The kubelet reports a container as terminated until it sets a waiting reason.
    let restarting = |container: &&Container| failed(container) && container.restarts > 0;
    let containers = || pod.containers.iter();
    if let Some(container) = containers().find(restarting) {
        return looping(facts, pod, container);
    }
    // Without a restart, the other containers keep the pod running.
    let failed = containers().find(failed);
    failed
        .and_then(|container| end_cause(facts, pod, container))
        .into_iter()
        .collect()
}

/// Explains a container that runs again, but has not run long enough to have recovered.
pub(super) fn unsteady(facts: &Facts<'_>, pod: &Pod) -> Vec<Cause> {
    let is_unsteady = |container: &&Container| {
        let failed = container
            .last_ended
            .as_ref()
            .is_some_and(|end| end.code != 0);
        let age = container
            .running_since
            .map(|since| facts.now.as_second() - since.as_second());
        failed && container.restarts >= MANY && age.is_some_and(|age| age < STEADY)
    };
    let container = pod.containers.iter().find(is_unsteady);
    container.map_or_else(Vec::new, |container| looping(facts, pod, container))
}

/// Builds the causes for a container that keeps exiting: the crash loop, and its last end.
pub(super) fn looping(facts: &Facts<'_>, pod: &Pod, container: &Container) -> Vec<Cause> {
    let label = container_label(pod, container);
    let end = container
        .terminated
        .as_ref()
        .or(container.last_ended.as_ref());
    let again = container.running_since.map_or(String::new(), |since| {
        let age = time_since(since, facts.now);
        format!("; it has been running again for {age}")
    });
    let text = match end {
        Some(end) => format!(
            "{label} keeps exiting ({}), last with {}{again}",
            count(u64::from(container.restarts), "restart"),
            end.describe()
        ),
        None => format!("{label} keeps exiting{again}"),
    };
    // Omit `--previous` until the container has restarted, because it would show an older run.
    let logs = facts.logs(pod, &container.name, container.terminated.is_none());
    let mut crash = Cause::new("crash-loop", text, "pod");
    if end.is_some_and(|end| end.code == 0) {
        let text = "its command ends without an error, and its restart policy starts it again";
        crash = crash.and(text, "pod");
    }
    let crash = crash.helps("read its log", Some(logs));
    let end = end_cause(facts, pod, container);
    std::iter::once(crash).chain(end).collect()
}

/// Explains the last end of a container, unless it succeeded.
fn end_cause(facts: &Facts<'_>, pod: &Pod, container: &Container) -> Option<Cause> {
    let end = container
        .terminated
        .as_ref()
        .or(container.last_ended.as_ref())
        .filter(|end| end.code != 0)?;
    Some(ends::end_cause(facts, pod, container, end))
}
