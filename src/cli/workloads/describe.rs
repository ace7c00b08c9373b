//! Arguments and help for `gpuctl describe workload`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

/// Show everything about one workload
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe workload PyTorchJob/llama-sft
  gpuctl describe workload 7c1f9f52-0d3c-4a53-9a6e-6f1d5a0a9d51 -o json")]
pub(crate) struct DescribeWorkload {
    /// Workload, as UID, NAME, KIND/NAME, NAMESPACE/NAME or NAMESPACE/KIND/NAME
    #[arg(add = ArgValueCandidates::new(candidates::workload_names))]
    pub name: String,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
