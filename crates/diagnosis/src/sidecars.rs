//! Explains a pod whose main container has ended while a sidecar keeps it running.

use super::answer::Cause;
use super::ends;
use super::facts::Facts;
use gpuctl_core::model::facts::state::pod_name;
use gpuctl_core::model::{ContainerEnd, Pod};

/// Returns the causes for a pod whose main program has ended while a sidecar holds its GPUs: the
/// sidecar, and how the main program ended if it failed.
pub(super) fn causes(facts: &Facts<'_>, pod: &Pod, sidecar: &str) -> Vec<Cause> {
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
