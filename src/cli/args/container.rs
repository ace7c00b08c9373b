//! Options of commands that run in a job's container.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::candidates;
use crate::inside::choice::ContainerChoice;

/// Selects a container of a pod.
#[derive(Args, Debug)]
pub(crate) struct ContainerArgs {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Rank of a training job, or index of a service's pod, from 0
    #[arg(long, value_name = "N", conflicts_with = "pod")]
    pub rank: Option<u32>,
    /// Name of the pod
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(candidates::pod_names))]
    pub pod: Option<String>,
    /// Container to use instead of the job's own
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
}

impl ContainerArgs {
    /// The selected pod and container.
    pub(crate) fn choice(&self) -> ContainerChoice<'_> {
        ContainerChoice {
            rank: self.rank,
            pod: self.pod.as_deref(),
            container: self.container.as_deref(),
        }
    }
}
