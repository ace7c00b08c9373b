//! Names of pods and containers in evidence, and the cause of an end without a known reason.

use super::answer::Cause;
use super::facts::Facts;
use gpuctl_core::model::facts::state::pod_name;
use gpuctl_core::model::{Container, Pod};

/// Names a container of a pod. The main container has the name of its pod or rank.
pub(super) fn container_label(pod: &Pod, container: &Container) -> String {
    let pod_label = pod_name(pod);
    match container {
        Container {
            is_init: true,
            name,
            ..
        } => format!("init container {name} of {pod_label}"),
        Container { name, .. } if *name == pod.own_container() => pod_label,
        Container { name, .. } => format!("container {name} of {pod_label}"),
    }
}

pub(super) fn node(pod: &Pod) -> &str {
    pod.node.as_deref().unwrap_or("(no node)")
}

/// Builds the cause for an end that gpuctl cannot classify.
pub(super) fn ended_other(facts: &Facts<'_>, pod: &Pod, text: &str, source: &'static str) -> Cause {
    let status = format!(
        "kubectl get pod {} -n {} -o yaml",
        pod.name, facts.job.namespace
    );
    Cause::new("ended-other", text, source)
        .when(pod.ended_at)
        .helps("see its complete status", Some(status))
}
