//! Arguments and help for `gpuctl get workload-metadata`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;

/// List the namespaces and kinds of workloads, for filters
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl get workload-metadata -o json")]
pub(crate) struct GetWorkloadMetadata {
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
