//! Explains containers that ended in a pod that continues: containers that keep exiting, and a main
//! container whose sidecar still runs.

use super::answer::Cause;
use super::ends;
use super::facts::Facts;
use super::pod_texts::container_label;
use gpuctl_core::model::facts::state::pod_name;
use gpuctl_core::model::{Container, ContainerEnd, Pod};

/// Returns the causes for a pod whose main program has ended while a sidecar holds its GPUs: the
/// sidecar, and how the main program ended if it failed.
pub(super) fn sidecar_causes(facts: &Facts<'_>, pod: &Pod, sidecar: &str) -> Vec<Cause> {
    let end = pod.own_end();
    let text = format!(
        "{} ended with {}, but its container {sidecar} is still running and holds the GPUs",
        pod_name(pod),
        end.map(ContainerEnd::describe).unwrap_or_default()
    );
    let stop = format!("kubectl delete pod {} -n {}", pod.name, facts.job.namespace);
    let cause = Cause::new("sidecar-running", text, "pod")
        .helps("delete the pod to release its GPUs", Some(stop))
        .helps(
            "make the container an init container with restartPolicy: Always",
            Some("kubectl explain pod.spec.initContainers.restartPolicy".to_owned()),
        );
    let failed = ends::failed_container(pod).filter(|_| end.is_some_and(|end| end.code != 0));
    let why = failed.map(|(container, end)| ends::end_cause(facts, pod, container, end));
    std::iter::once(cause).chain(why).collect()
}

/// Returns the causes of a container that keeps exiting, and of its last end.
pub(super) fn crashing(facts: &Facts<'_>, pod: &Pod, container: &Container) -> Vec<Cause> {
    let end = container
        .terminated
        .as_ref()
        .or(container.last_ended.as_ref());
    // Omit `--previous` until the container has restarted, because it would show an older run.
    let previous = container.terminated.is_none();
    let crash = crash(facts, pod, container, end, previous);
    let why = end.map(|end| ends::end_cause(facts, pod, container, end));
    std::iter::once(crash).chain(why).collect()
}

/// The cause of a container that keeps exiting.
pub(super) fn crash(
    facts: &Facts<'_>,
    pod: &Pod,
    container: &Container,
    end: Option<&ContainerEnd>,
    previous: bool,
) -> Cause {
    let label = container_label(pod, container);
    let text = match end {
        Some(end) => format!(
            "{label} keeps exiting ({} restarts), last with {}",
            container.restarts,
            end.describe()
        ),
        None => format!("{label} keeps exiting"),
    };
    let logs = facts.logs(pod, &container.name, previous);
    Cause::new("crash-loop", text, "pod").helps("read its log", Some(logs))
}
