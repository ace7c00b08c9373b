//! Arguments and help for `gpuctl top`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::args::list::PrintArgs;
use crate::cli::args::value::duration;
use gpuctl_view::workloads::top::{TopOrder, TopRows};

/// Watch jobs, nodes, GPUs and queues, and inspect them
///
/// On a terminal, opens an interactive dashboard with live lists, a heat map and filters. `why`,
/// logs and a shell are available for the selected item. `?` shows the keys. Jobs are all workloads
/// that hold or wait for GPUs.
///
/// When piped, or with --once, --plain or -o, prints one table instead, of nodes, GPUs or the
/// workloads that hold GPUs. Without metrics, the columns for them are empty.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl top
  gpuctl top gpus --sort-by power
  gpuctl top jobs -n team-a | head
  gpuctl top --once -o json | jq .gpuHeld")]
pub(crate) struct Top {
    /// View to open, or table to print [default: jobs in the dashboard, nodes in the table]
    #[arg(value_enum, value_name = "WHAT")]
    pub what: Option<TopView>,
    /// Sort by this key, highest first
    #[arg(long, value_enum, default_value_t, value_name = "KEY")]
    pub sort_by: TopSortKey,
    /// Refresh interval for metrics; node and pod changes appear immediately
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub interval: Duration,
    /// Print the table once, even on a terminal
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub print: PrintArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopView {
    #[value(alias = "node")]
    Nodes,
    #[value(alias = "job")]
    Jobs,
    #[value(alias = "gpu")]
    Gpus,
}

impl From<TopView> for TopRows {
    fn from(view: TopView) -> Self {
        match view {
            TopView::Nodes => Self::Nodes,
            TopView::Jobs => Self::Jobs,
            TopView::Gpus => Self::Gpus,
        }
    }
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
