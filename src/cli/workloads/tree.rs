//! Arguments and help for `gpuctl tree`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

/// Show the objects that a workload owns, down to its pods
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl tree Deployment/llama3-8b
  gpuctl tree team-a/RayJob/tune -o json")]
pub(crate) struct Tree {
    /// Workload, as UID, NAME, KIND/NAME, NAMESPACE/NAME or NAMESPACE/KIND/NAME
    #[arg(add = ArgValueCandidates::new(candidates::workload_names))]
    pub name: String,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
