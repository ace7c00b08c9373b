//! Arguments and help for `gpuctl get clusters`.

use clap::Args;

use crate::cli::args::list::PrintArgs;

/// List the kubeconfig contexts
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl get clusters -o json")]
pub(crate) struct GetClusters {
    #[command(flatten)]
    pub print: PrintArgs,
}
