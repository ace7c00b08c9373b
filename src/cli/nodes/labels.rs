//! Arguments and help for `gpuctl get label`, `get node-labels` and `get gpu-type`.

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::ListArgs;
use crate::cli::candidates;
use gpuctl_core::model::facts::gpu::TYPE_LABELS;

#[derive(Args, Debug)]
pub(crate) struct NodeLabels {
    /// Name of the node [default: list the cluster's GPU types]
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
