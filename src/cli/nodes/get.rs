//! Arguments and help for `gpuctl get nodes`.

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::ListArgs;
use crate::cli::args::value::selector;
use crate::cli::candidates;
use gpuctl_core::model::values::selector::Selector;

/// List nodes, their GPUs, and how many are free
///
/// Counts whole devices and slices (MIG, shares) separately. A pod holds its GPUs from the moment
/// it is scheduled until it ends.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get nodes
  gpuctl get node gpu-a-01
  gpuctl get nodes --pool training-pool --status active
  gpuctl get nodes --gpu-type a100-80g -o json
  gpuctl get nodes --all-contexts
  gpuctl get nodes --label nvidia.com/gpu-type
  gpuctl get nodes --blame 30d")]
pub(crate) struct GetNodes {
    /// Names of the nodes [default: all]
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::node_names))]
    pub names: Vec<String>,
    /// List only nodes whose labels match, for example zone=a
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub selector: Option<Selector>,
    /// List only nodes of this pool
    #[arg(long, value_name = "NAME", value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::pool_names))]
    pub pool: Option<String>,
    /// List only nodes with GPUs of this type, in any spelling; for a label key, list its values
    #[arg(long, value_name = "TYPE", add = ArgValueCandidates::new(candidates::gpu_types))]
    pub gpu_type: Option<String>,
    /// List only nodes in this state
    #[arg(long, value_name = "STATUS", value_parser = ["active", "maintaining", "faulty"])]
    pub status: Option<String>,
    /// List every GPU
    #[arg(long, conflicts_with = "label")]
    pub gpu_detail: bool,
    /// List the values of this label
    #[arg(long, value_name = "KEY")]
    pub label: Option<String>,
    /// Show the labels of each node in the last column
    #[arg(long, conflicts_with_all = ["gpu_detail", "label"])]
    pub show_labels: bool,
    /// Show the nodes at a time in the past, from Prometheus: RFC 3339, Unix seconds, or a span
    /// before now such as 2h
    #[arg(long, value_name = "TIME", conflicts_with_all = ["names", "selector", "pool", "gpu_type", "status", "gpu_detail", "label", "show_labels", "sort_by", "page", "page_size", "watch"])]
    pub at: Option<String>,
    /// Rank nodes by how often they were the first to fail a job, per GPU-hour, since this time:
    /// RFC 3339, Unix seconds, or a span before now such as 30d
    #[arg(long, value_name = "TIME", conflicts_with_all = ["names", "selector", "pool", "gpu_type", "status", "gpu_detail", "label", "show_labels", "at", "sort_by", "watch"])]
    pub blame: Option<String>,
    /// List the nodes of all kubeconfig contexts; a context that cannot be read is skipped with a
    /// warning
    #[arg(long, conflicts_with_all = ["at", "blame", "watch"])]
    pub all_contexts: bool,
    #[command(flatten)]
    pub list: ListArgs<NodeSortKey>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum NodeSortKey {
    Name,
    Status,
    Gpus,
    Free,
    Type,
    Age,
}
