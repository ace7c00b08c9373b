//! Arguments and help for `gpuctl exec`.

use clap::Args;

use crate::cli::args::container::ContainerArgs;

/// Run a command inside a job
///
/// Without a command it opens a shell. Exits with the command's exit code.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl exec qwen2-7b-sft
  gpuctl exec qwen2-7b-sft nvidia-smi -L
  gpuctl exec qwen2-7b-sft --rank 3 -- nvidia-smi
  gpuctl exec data-prep -i -- tee /workspace/x.txt < x.txt")]
pub(crate) struct Exec {
    #[command(flatten)]
    pub target: ContainerArgs,
    /// Forward stdin
    #[arg(short = 'i', long)]
    pub stdin: bool,
    /// Attach the command to this terminal
    #[arg(short, long)]
    pub tty: bool,
    /// Command and its arguments, including options of the command
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
