//! Arguments and help for `gpuctl describe job`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

/// Show everything about one job, including its state, pods, nodes, GPUs, events and submitted YAML
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe job qwen2-7b-sft
  gpuctl describe job team-a/qwen2-7b-sft -o json")]
pub(crate) struct DescribeJob {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::job_names))]
    pub name: String,
    /// Search for the job only where `delete job` does; for agent previews
    #[arg(long, hide = true)]
    pub to_delete: bool,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
