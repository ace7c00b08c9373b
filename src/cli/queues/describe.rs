//! Arguments and help for `gpuctl describe queue`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

/// Show one queue, its running jobs, and why its other jobs are waiting
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe queue research
  gpuctl describe queue team-a/research -o json")]
pub(crate) struct DescribeQueue {
    /// Queue, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(candidates::queues))]
    pub name: String,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
