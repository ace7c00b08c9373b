//! Arguments and help for `gpuctl get clusters`.

use clap::Args;

use crate::cli::args::format::OneFormat;

/// List the kubeconfig contexts
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl get clusters -o json")]
pub(crate) struct GetClusters {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
