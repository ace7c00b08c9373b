//! Arguments and help for `gpuctl pause`.

use clap::Args;

use crate::cli::args::selection::ChangeArgs;

/// Pause a job: stop its pods, and keep its files, volume claims and addresses
///
/// On resume, a training job's command starts over, and picks up where it left off only if it loads
/// a checkpoint. Everything in the pod's memory and local filesystem is lost, including its log.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl pause data-prep
  gpuctl pause job team-a/qwen2-7b-sft -o json
  gpuctl pause 'trial-*' --dry-run
  gpuctl pause --mine --status pending --yes")]
pub(crate) struct Paused {
    #[command(flatten)]
    pub change: ChangeArgs,
}
