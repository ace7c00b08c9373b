//! Arguments and help of `gpuctl top`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::args::value::duration;
use crate::view::top::TopOrder;

/// Watch the utilization of nodes, jobs or GPUs
///
/// Redraws until `q` or Ctrl-C on a terminal; prints once in a pipe. Jobs are all workloads that hold GPUs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl top
  gpuctl top gpus --sort-by power
  gpuctl top jobs -n team-a | head")]
pub(crate) struct Top {
    /// What to show
    #[arg(value_enum, default_value_t, value_name = "WHAT")]
    pub what: TopView,
    /// Sort by this key, the highest first
    #[arg(long, value_enum, default_value_t, value_name = "KEY")]
    pub sort_by: TopSortKey,
    /// Refresh interval of metrics; changes of nodes and pods are shown when they happen
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub interval: Duration,
    /// Print once, even on a terminal
    #[arg(long)]
    pub once: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopView {
    #[default]
    #[value(alias = "node")]
    Nodes,
    #[value(alias = "job")]
    Jobs,
    #[value(alias = "gpu")]
    Gpus,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum TopSortKey {
    #[default]
    Utilization,
    Memory,
    Power,
    Gpus,
    Name,
}

impl From<TopSortKey> for TopOrder {
    fn from(key: TopSortKey) -> Self {
        match key {
            TopSortKey::Utilization => Self::Utilization,
            TopSortKey::Memory => Self::Memory,
            TopSortKey::Power => Self::Power,
            TopSortKey::Gpus => Self::Gpus,
            TopSortKey::Name => Self::Name,
        }
    }
}
