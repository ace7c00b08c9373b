//! Arguments and help for `gpuctl pause`.

use clap::Args;

use crate::cli::args::selection::ChangeArgs;

/// Pause a job: stop its pods, and keep its files, volume claims and addresses
///
/// On resume, the command of a training starts again, and it continues only if it loads a
/// checkpoint. Everything in a pod's memory and in its own folders is lost, including its log.
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
