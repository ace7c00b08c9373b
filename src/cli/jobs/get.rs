//! Arguments and help of `gpuctl get jobs`.

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::columns::{Output, OutputParser};
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
pub struct GetJobs {
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
    /// Order of the list
    #[arg(long, value_enum, value_name = "KEY")]
    pub sort_by: Option<SortKey>,
    /// Page to print, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub page: Option<u32>,
    /// Jobs on a page
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub page_size: Option<u32>,
    /// Go on: redraw on a terminal, one JSON object per change in a pipe
    #[arg(short, long)]
    pub watch: bool,
    /// Do not look into logs for the progress
    #[arg(long)]
    pub no_progress: bool,
    /// All workloads as they were at a time, from Prometheus' history: RFC 3339, Unix seconds, a span before now such as 2h
    #[arg(long, value_name = "TIME", conflicts_with_all = ["kind", "pool", "status", "mine", "sort_by", "page", "page_size", "watch"])]
    pub at: Option<String>,
    /// Leave the titles out
    #[arg(long)]
    pub no_headers: bool,
    /// Output format; custom-columns=TITLE:.field,… has fields of the JSON
    #[arg(short, long, value_parser = OutputParser, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SortKey {
    Name,
    Age,
    Status,
    Gpu,
    Kind,
}
