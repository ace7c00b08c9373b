//! Arguments and help of `gpuctl get jobs`.

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::ListArgs;
use crate::cli::candidates;

/// List jobs and what they really do
///
/// The state is read from the pods: a job runs when all its pods run. The reason stands behind the status. Without -n
/// every namespace that you may read is listed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get jobs
  gpuctl get jobs --status pending --pool training-pool
  gpuctl get jobs -o custom-columns=NAME:.jobId,GPUS:.gpuHeld --no-headers
  gpuctl get jobs --mine -o json | jq '.items[] | select(.status == \"failed\")'")]
pub(crate) struct GetJobs {
    /// All namespaces, also when the context names one
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only jobs of this kind
    #[arg(long, value_name = "KIND", value_parser = ["training", "inference", "notebook", "compute"])]
    pub kind: Option<String>,
    /// Only jobs in this pool
    #[arg(long, value_name = "NAME", value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::pool_names))]
    pub pool: Option<String>,
    /// Only jobs in this state
    #[arg(long, value_name = "STATUS", value_parser = ["pending", "running", "succeeded", "failed", "paused", "terminating", "unknown"])]
    pub status: Option<String>,
    /// Only jobs that I submitted
    #[arg(long)]
    pub mine: bool,
    /// Do not look into logs for the progress
    #[arg(long)]
    pub no_progress: bool,
    /// All workloads as they were at a time, from Prometheus' history: RFC 3339, Unix seconds, a span before now such as 2h
    #[arg(long, value_name = "TIME", conflicts_with_all = ["kind", "pool", "status", "mine", "sort_by", "page", "page_size", "watch"])]
    pub at: Option<String>,
    #[command(flatten)]
    pub list: ListArgs<JobSortKey>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum JobSortKey {
    Name,
    Age,
    Status,
    Gpu,
    Kind,
}
