//! Arguments and help of `gpuctl attach`.

use clap::Args;

use crate::cli::args::container::ContainerArgs;

/// Join the process that a job runs
///
/// Shows what it says from now on, output and errors as they come. Ctrl-C leaves, and the job goes on.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl attach qwen2-7b-sft
  gpuctl attach qwen2-7b-sft --rank 1")]
pub(crate) struct Attach {
    #[command(flatten)]
    pub target: ContainerArgs,
}
