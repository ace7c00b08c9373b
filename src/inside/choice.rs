//! Selects the pod and container of a job for a command. If the pod's node does not respond, the
//! error names the node.

use gpuctl_cluster::Failure;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::natural;
use gpuctl_core::model::{Job, Pod, PodPhase, State};

/// Options that select a container of a job. The default is the job's own container in the first
/// running pod.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ContainerChoice<'a> {
    pub rank: Option<u32>,
    pub pod: Option<&'a str>,
    pub container: Option<&'a str>,
}

/// Converts a failure of a request that the API server forwards to a node. If the node did not
/// respond, names it, because the server's message only contains an address.
pub(crate) fn from_node(failure: Failure, pod: &Pod) -> Error {
    let is_silent = matches!(failure, Failure::TimedOut { .. })
        || failure.code().is_some_and(|code| code >= 500);
    match &pod.node {
        Some(node) if is_silent => {
            let message = format!(
                "node `{node}` does not respond to requests for pod {}",
                pod.name
            );
            Error::new(ErrorName::NodeNotAnswering, message)
                .cause(failure.to_string())
                .hint(format!("gpuctl describe node {node}"))
        }
        _ => failure.into(),
    }
}

/// Finds a pod by name or rank, or the first running pod.
pub(crate) fn pod<'j>(job: &'j Job, choice: ContainerChoice<'_>) -> Result<&'j Pod, Error> {
    let mut pods = job.current_pods();
    if job.kind.serves() {
        // A service's pods have no ranks, so number them by name.
        pods.retain(|pod| !pod.ended());
        pods.sort_by(|a, b| natural::compare(&a.name, &b.name));
    }
    let runs = |pod: &&&Pod| pod.phase == PodPhase::Running;
    let matched = match (choice.pod, choice.rank) {
        (Some(name), _) => pods.iter().find(|pod| pod.name == name),
        (None, Some(rank)) if job.kind.serves() => pods.get(rank as usize),
        (None, Some(rank)) => pods.iter().find(|pod| pod.rank == Some(rank)),
        (None, None) => pods.iter().find(runs).or_else(|| pods.first()),
    };
    let state = State::from_job(job);
    let full_name = format!("{}/{}", job.namespace, job.name);
    let Some(pod) = matched else {
        if pods.is_empty() {
            let error = Error::new(
                ErrorName::NotRunning,
                format!("job `{}` has no pods; its status is {state}", job.name),
            );
            return Err(error.hint(format!("gpuctl describe job {full_name}")));
        }
        let description = choice.rank.map_or_else(
            || format!("pod `{}`", choice.pod.unwrap_or("")),
            |rank| format!("rank {rank}"),
        );
        let name = |(index, pod): (usize, &&Pod)| match (choice.rank, pod.rank) {
            (Some(_), Some(rank)) => rank.to_string(),
            (Some(_), None) => index.to_string(),
            (None, _) => pod.name.clone(),
        };
        let names: Vec<String> = pods.iter().enumerate().map(name).collect();
        let error = Error::new(
            ErrorName::PodNotFound,
            format!("job `{}` has no {description}", job.name),
        );
        return Err(error.hint(format!("available: {}", names.join(", "))));
    };
    if pod.phase != PodPhase::Running {
        let error = Error::new(
            ErrorName::NotRunning,
            format!(
                "{} is not running: job `{}` has status {state}",
                pod.name, job.name
            ),
        );
        return Err(error.hint(format!("gpuctl logs {full_name}")));
    }
    Ok(*pod)
}
