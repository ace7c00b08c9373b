//! Options of every command that works inside a container of a job.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::candidates;
use crate::inside::choice::ContainerChoice;

/// Which container of which pod.
#[derive(Args, Debug)]
pub(crate) struct ContainerArgs {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Rank of a training, or number of a service's pod, from 0
    #[arg(long, value_name = "N", conflicts_with = "pod")]
    pub rank: Option<u32>,
    /// Pod by its name
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(candidates::pod_names))]
    pub pod: Option<String>,
    /// Container instead of the job's own
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
}

impl ContainerArgs {
    /// Returns which pod and container are meant.
    pub(crate) fn choice(&self) -> ContainerChoice<'_> {
        ContainerChoice {
            rank: self.rank,
            pod: self.pod.as_deref(),
            container: self.container.as_deref(),
        }
    }
}
