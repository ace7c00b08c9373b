//! Arguments and help for `gpuctl get queues`.

use clap::{Args, ValueEnum};

use crate::cli::args::list::ListArgs;

/// List Kueue and Volcano queues, with their quota, usage, running and waiting jobs
///
/// Lists all namespaces, or only the namespace of -n. QUOTA and BORROWED belong to the
/// ClusterQueue, which several queues may share. USED is what this queue's jobs use. UTIL is the
/// mean utilization of the GPUs that its gpuctl jobs currently hold. Volcano queues have no
/// namespace.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get queues
  gpuctl get queues --sort-by waiting
  gpuctl get queues --sort-by utilization
  gpuctl get queues --preemptions
  gpuctl get queues -n team-a -o json")]
pub(crate) struct GetQueues {
    #[command(flatten)]
    pub list: ListArgs<QueueSortKey>,
    /// List preempted workloads and the workloads that preempted them instead, if Kueue's
    /// conditions and the scheduler's events still show them
    #[arg(long, conflicts_with_all = ["sort_by", "show_labels"])]
    pub preemptions: bool,
    /// Show the labels of each queue in the last column
    #[arg(long)]
    pub show_labels: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum QueueSortKey {
    Name,
    /// Most GPUs first
    Used,
    /// Most jobs first
    Waiting,
    /// Borrowing queues first; least utilized first in both groups
    Utilization,
}
