//! Arguments and help of `gpuctl get workloads`.

use clap::{Args, ValueEnum};

use crate::cli::args::list::ListArgs;

/// List all workloads that request GPUs, by their top-level owner
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get workloads --status Running
  gpuctl get workloads --kind PyTorchJob --order-by start_at
  gpuctl get workloads -n team-a -o json --page 2")]
pub(crate) struct GetWorkloads {
    /// Only workloads with this in their name
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Only workloads of this kind, such as Job or PyTorchJob
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Only workloads in this state
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = ["Running", "Completed", "Failed", "Pending", "Unknown"])]
    pub status: Option<String>,
    /// Sort by start or end, the newest first: the workloads document's name for --sort-by
    #[arg(long, value_enum, value_name = "KEY", conflicts_with = "sort_by")]
    pub order_by: Option<WorkloadOrder>,
    #[command(flatten)]
    pub list: ListArgs<WorkloadSortKey>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum WorkloadOrder {
    #[value(name = "start_at")]
    StartAt,
    #[value(name = "end_at")]
    EndAt,
}

/// Without a key the list is sorted by namespace and name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum WorkloadSortKey {
    Name,
    Namespace,
    Status,
    /// The largest request first
    Gpu,
    /// The newest start first
    Start,
    /// The newest end first
    End,
}

impl From<WorkloadOrder> for WorkloadSortKey {
    fn from(order: WorkloadOrder) -> Self {
        match order {
            WorkloadOrder::StartAt => Self::Start,
            WorkloadOrder::EndAt => Self::End,
        }
    }
}
