//! Arguments and help for `gpuctl describe pool`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

/// Show everything about one pool, including its nodes, GPUs by type, quota and jobs
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe pool training-pool
  gpuctl describe pool training-pool -o json")]
pub(crate) struct DescribePool {
    /// Name of the pool
    #[arg(value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::pool_names))]
    pub name: String,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
