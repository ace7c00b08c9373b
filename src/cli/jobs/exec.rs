//! Arguments and help of `gpuctl exec`.

use clap::Args;

use crate::cli::args::container::ContainerArgs;

/// Run a command inside a job
///
/// Without a command it is a shell, with this terminal. The exit code is the command's own.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl exec qwen2-7b-sft
  gpuctl exec qwen2-7b-sft --rank 3 -- nvidia-smi
  gpuctl exec data-prep -i -- tee /workspace/x.txt < x.txt")]
pub(crate) struct Exec {
    #[command(flatten)]
    pub target: ContainerArgs,
    /// Pass stdin on
    #[arg(short = 'i', long)]
    pub stdin: bool,
    /// Give the command this terminal
    #[arg(short, long)]
    pub tty: bool,
    /// Command and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
