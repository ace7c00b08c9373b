//! Arguments and help for `gpuctl get claims`.

use clap::{Args, ValueEnum};

use crate::cli::args::list::ListArgs;

/// List volume claims, with their size, job and the pods that use them
///
/// Claims created by `size:` and their data remain when the job is deleted. Lists all namespaces,
/// or only the namespace of -n. Claims that gpuctl did not create are only counted, unless --all
/// lists them. Kubernetes does not record when a claim was used, so LAST USE comes from pods that
/// still exist.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get claims
  gpuctl get claims --unused --sort-by size
  gpuctl get claims --all -n team-a   also those that gpuctl did not create
  gpuctl delete job NAME --purge      delete a job's claims, even after the job")]
pub(crate) struct GetClaims {
    /// Also list claims that gpuctl did not create
    #[arg(long)]
    pub all: bool,
    /// List only claims that no pod currently mounts
    #[arg(long)]
    pub unused: bool,
    /// Show the labels of each claim in the last column
    #[arg(long)]
    pub show_labels: bool,
    #[command(flatten)]
    pub list: ListArgs<ClaimSortKey>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ClaimSortKey {
    Name,
    /// Largest first
    Size,
    Job,
    /// Oldest first
    Age,
}
