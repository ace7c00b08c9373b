//! Arguments and help for `gpuctl get consumers`.

use clap::{Args, ValueEnum};

use crate::cli::args::list::ListArgs;

/// List workloads that hold or wait for GPUs, with their utilization, largest first
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get consumers
  gpuctl get consumers -o json --page 1 --page-size 20")]
pub(crate) struct GetConsumers {
    #[command(flatten)]
    pub list: ListArgs<ConsumerSortKey>,
}

/// The default order is the largest request first.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ConsumerSortKey {
    Name,
    Namespace,
    /// Largest request first
    Requested,
    /// Most allocated GPUs first
    Held,
    /// Lowest utilization first; unknown last
    Utilization,
}
