//! Arguments and help for `gpuctl get label`, `get node-labels` and `get gpu-type`.

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::ListArgs;
use crate::cli::candidates;
use gpuctl_core::model::facts::gpu::TYPE_LABELS;

/// List the GPU types of this cluster, or show one label of a node, or the GPU labels of all nodes
///
/// Without a node, it lists the types in the form that job files use in `resources.gpu-type`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get gpu-type
  gpuctl get label gpu-a-01 --key nvidia.com/gpu-type
  gpuctl get node-labels --all
  gpuctl get gpu-type --all -o json")]
pub(crate) struct NodeLabels {
    /// Node [default: list the GPU types of this cluster]
    #[arg(value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::node_names), conflicts_with = "all")]
    pub node: Option<String>,
    /// Key of the label
    #[arg(long, value_name = "KEY", conflicts_with = "all", default_value = TYPE_LABELS[0])]
    pub key: String,
    /// Show the GPU labels of every node
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub list: ListArgs<LabelSortKey>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LabelSortKey {
    Name,
    Pool,
    Type,
}
