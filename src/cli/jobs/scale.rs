//! Arguments and help for `gpuctl scale`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::submit::dry_run;
use crate::cli::candidates;
use gpuctl_cluster::DryRun;

/// Set a service's number of replicas
///
/// Scaling to 0 pauses the service and frees its GPUs. An autoscaler may later change any other
/// number.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl scale llama3-8b 4
  gpuctl scale data-prep --replicas 0")]
pub(crate) struct Scale {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Number of replicas
    #[arg(value_name = "REPLICAS", required_unless_present = "replicas", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub number: Option<u32>,
    /// Number of replicas; the same as the REPLICAS argument
    #[arg(long, value_name = "N", conflicts_with = "number", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub replicas: Option<u32>,
    /// Show the result without changing anything; `server` also lets the API server check it
    #[arg(long, value_parser = dry_run(), value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
