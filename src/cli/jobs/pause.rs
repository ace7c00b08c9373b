//! Arguments and help for `gpuctl pause`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::candidates;

/// Pause a job: stop its pods, and keep its files, volume claims and addresses
///
/// On resume, the command of a training starts again, and it continues only if it loads a
/// checkpoint. Everything in a pod's memory and in its own folders is lost, including its log.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl pause data-prep
  gpuctl pause job team-a/qwen2-7b-sft -o json")]
pub(crate) struct Paused {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
