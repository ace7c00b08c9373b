//! Arguments and help for `gpuctl describe node`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

/// Show everything about one node, including its GPUs, the pods that hold them, its health and
/// labels
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe node gpu-a-01
  gpuctl describe node gpu-a-01 -o json")]
pub(crate) struct DescribeNode {
    /// Name of the node
    #[arg(value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::node_names))]
    pub name: String,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
