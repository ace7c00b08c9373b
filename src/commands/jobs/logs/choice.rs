//! Selects the pods whose logs to print.

use crate::cli::jobs::logs::Logs;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::natural;
use gpuctl_core::model::{Job, Pod};

/// Selects the pods of the current attempt, or of the previous one with `--previous`.
pub(super) fn select_pods(args: &Logs, job: &Job) -> Result<Vec<Pod>, Error> {
    let current = job.current_pods();
    let mut pods: Vec<Pod> = if args.previous && !job.kind.serves() {
        current
            .iter()
            .filter_map(|pod| previous_pod(job, pod))
            .collect()
    } else if args.pod.is_some() {
        job.pods.clone()
    } else {
        current.into_iter().cloned().collect()
    };
    let has_pods = !pods.is_empty();
    let filter = PodFilter::new(args, job);
    pods.retain(|pod| filter.matches(pod));
    if pods.is_empty() && has_pods {
        return Err(no_such_pod(args, job));
    }
    if pods.is_empty() && args.previous {
        let error = Error::new(
            ErrorName::NoPreviousTry,
            format!("no pod of job `{}` has an earlier attempt", job.name),
        );
        return Err(error.hint(format!("gpuctl logs {}/{}", job.namespace, job.name)));
    }
    Ok(pods)
}

/// Returns the rank's pod of the previous attempt.
fn previous_pod(job: &Job, pod: &Pod) -> Option<Pod> {
    let mut pods_of_rank: Vec<&Pod> = job
        .pods
        .iter()
        .filter(|other| other.rank == pod.rank)
        .collect();
    pods_of_rank.sort_by(|a, b| (a.created_at, &a.name).cmp(&(b.created_at, &b.name)));
    // The rank's last pod belongs to the current attempt.
    pods_of_rank.iter().rev().nth(1).map(|pod| (*pod).clone())
}

/// Builds the error for a missing rank or pod.
fn no_such_pod(args: &Logs, job: &Job) -> Error {
    let requested = args.rank.map_or_else(
        || format!("pod `{}`", args.pod.clone().unwrap_or_default()),
        |rank| format!("rank {rank}"),
    );
    let label = |(index, pod): (usize, &&Pod)| match (args.rank, pod.rank) {
        (_, Some(rank)) => rank.to_string(),
        (Some(_), None) => index.to_string(),
        (None, None) => pod.name.clone(),
    };
    let names: Vec<String> = job.current_pods().iter().enumerate().map(label).collect();
    let error = Error::new(
        ErrorName::PodNotFound,
        format!("job `{}` has no {requested}", job.name),
    );
    error.hint(format!("available: {}", names.join(", ")))
}

/// Selects a training's pods by rank, and a service's pods by their current number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodFilter {
    pod: Option<String>,
    rank: Option<u32>,
}

impl PodFilter {
    pub(super) fn new(args: &Logs, job: &Job) -> Self {
        if !job.kind.serves() || args.rank.is_none() {
            return Self {
                pod: args.pod.clone(),
                rank: args.rank,
            };
        }
        let mut names: Vec<&str> = job
            .pods
            .iter()
            .filter(|pod| !pod.ended())
            .map(|pod| pod.name.as_str())
            .collect();
        names.sort_by(|a, b| natural::compare(a, b));
        // Without a pod of this number, nothing is selected.
        let name = args
            .rank
            .and_then(|rank| names.get(rank as usize))
            .copied()
            .unwrap_or_default();
        Self {
            pod: Some(name.to_owned()),
            rank: None,
        }
    }

    pub(super) fn matches(&self, pod: &Pod) -> bool {
        self.rank.is_none_or(|rank| pod.rank == Some(rank))
            && self.pod.as_ref().is_none_or(|name| &pod.name == name)
    }
}
