//! Arguments and help for `gpuctl attach`.

use clap::Args;

use crate::cli::args::container::ContainerArgs;

/// Attach to the output of a running job
///
/// Prints what the job writes to stdout and stderr from now on. Ctrl-C detaches, and the job
/// continues.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl attach qwen2-7b-sft
  gpuctl attach qwen2-7b-sft --rank 1")]
pub(crate) struct Attach {
    #[command(flatten)]
    pub target: ContainerArgs,
}
