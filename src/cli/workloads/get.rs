//! Arguments and help for `gpuctl get workloads`.

use clap::{Args, ValueEnum};

use crate::cli::args::list::ListArgs;
use gpuctl_core::model::values::field_selector::FieldSelector;

/// List all workloads that request GPUs, by their top-level owner
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get workloads --status Running
  gpuctl get workloads --kind PyTorchJob --sort-by start
  gpuctl get workloads -n team-a -o json --page 2
  gpuctl get workloads --all-contexts --sort-by gpu")]
pub(crate) struct GetWorkloads {
    /// List only workloads whose name contains this text
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// List only workloads of this kind, such as Job or PyTorchJob
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// List only workloads in this state
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = ["Running", "Completed", "Failed", "Pending", "Unknown"])]
    pub status: Option<String>,
    /// List only workloads whose fields match: metadata.name and metadata.namespace, with =, == and
    /// !=
    #[arg(long, value_name = "SELECTOR", value_parser = FieldSelector::parse)]
    pub field_selector: Option<FieldSelector>,
    /// List the workloads of all kubeconfig contexts; a context that cannot be read is skipped with
    /// a warning
    #[arg(long, conflicts_with = "watch")]
    pub all_contexts: bool,
    #[command(flatten)]
    pub list: ListArgs<WorkloadSortKey>,
}

/// The default order is by namespace and name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum WorkloadSortKey {
    Name,
    Namespace,
    Status,
    /// Largest request first
    Gpu,
    /// Newest start first
    #[value(alias = "start_at")]
    Start,
    /// Newest end first
    #[value(alias = "end_at")]
    End,
}
