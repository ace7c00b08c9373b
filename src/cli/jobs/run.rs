//! Arguments and help for `gpuctl run`.

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::output::output_format;
use crate::cli::args::submit::SubmitArgs;
use crate::cli::args::value::{Expected, object_name};
use crate::cli::candidates;

/// Run a command on GPUs, without a file
///
/// Equivalent to writing these flags as a job file and passing it to `gpuctl create`; `-o spec`
/// prints that file.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl run --name sft --gpus 1 --image pytorch/pytorch:2.9.0 --file train.py -- python train.py
  gpuctl run --name big --gpus 8 --node-count 2 --pool training-pool --image my/image:1 --wait -- torchrun train.py
  gpuctl run --name sft --gpus 1 --image my/image:1 --dry-run=client -o spec -- python train.py > sft.yaml")]
pub(crate) struct RunArgs {
    /// Name of the job
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Container image
    #[arg(long, value_name = "IMAGE")]
    pub image: String,
    /// GPUs per node
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub gpus: u32,
    /// GPU type, such as a100-80g
    #[arg(long, value_name = "TYPE", add = ArgValueCandidates::new(candidates::gpu_types))]
    pub gpu_type: Option<String>,
    /// Number of nodes
    #[arg(long, value_name = "N")]
    pub node_count: Option<u32>,
    /// Pool to run in
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    pub pool: Option<String>,
    /// CPUs per node
    #[arg(long, value_name = "AMOUNT")]
    pub cpu: Option<String>,
    /// Memory per node, such as 64Gi
    #[arg(long, value_name = "AMOUNT")]
    pub memory: Option<String>,
    /// Local file to copy to /workspace, where the command starts; may be repeated
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub file: Vec<String>,
    /// Environment variable, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Environment variable NAME, set from the key NAME of this Secret; may be repeated
    #[arg(long, value_name = "NAME=SECRET", value_parser = variable)]
    pub env_secret: Vec<(String, String)>,
    /// Priority of the job: high, medium, low or an existing PriorityClass
    #[arg(long, value_name = "PRIORITY")]
    pub priority: Option<String>,
    /// How many times each pod is retried
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Stop the job if it still runs after this time, such as 12h
    #[arg(long, value_name = "TIME")]
    pub max_runtime: Option<String>,
    /// Append a random suffix to the name, so that the command can be run repeatedly
    #[arg(long)]
    pub generate_name: bool,
    #[command(flatten)]
    pub submit: SubmitArgs,
    /// Output format; spec prints the job file that is equivalent to this command
    #[arg(short, long, value_parser = output_format::<RunFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: RunFormat,
    /// Command and its arguments, after `--` [default: the image's command]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunFormat {
    #[default]
    Text,
    Json,
    Yaml,
    Spec,
}

pub(crate) fn variable(text: &str) -> Result<(String, String), Expected> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or(Expected("NAME=VALUE, such as LR=0.1"))
}
