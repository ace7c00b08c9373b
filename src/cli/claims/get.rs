//! Arguments and help of `gpuctl get claims`.

use clap::{Args, ValueEnum};

use crate::cli::args::list::ListArgs;

/// List volume claims: size, job, who uses them
///
/// Claims that `size:` made stay when their job is deleted, and so does their data. Lists all
/// namespaces, or the one that -n names. Kubernetes keeps no record of uses: LAST USE is what pods
/// tell that are still listed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get claims
  gpuctl get claims --unused --sort-by size
  gpuctl get claims --all -n team-a -o json
  gpuctl delete job NAME --purge      delete the claims of a job, also after the job")]
pub(crate) struct GetClaims {
    /// Also list claims that gpuctl did not create
    #[arg(long)]
    pub all: bool,
    /// Only claims that no pod mounts now
    #[arg(long)]
    pub unused: bool,
    #[command(flatten)]
    pub list: ListArgs<ClaimSortKey>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ClaimSortKey {
    Name,
    /// The largest first
    Size,
    Job,
    /// The oldest first
    Age,
}
