//! Arguments and help of `gpuctl top`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::args::value::duration;
use crate::view::top::Key;

/// Watch nodes, jobs or GPUs by how busy they are
///
/// Redraws until `q` or Ctrl-C on a terminal; prints once in a pipe. Jobs are workloads of anybody's that hold GPUs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl top
  gpuctl top gpus --sort-by power
  gpuctl top jobs -n team-a | head")]
pub struct Top {
    /// What to show
    #[arg(value_enum, default_value_t, value_name = "WHAT")]
    pub what: What,
    /// Order: the highest first
    #[arg(long, value_enum, default_value_t, value_name = "KEY")]
    pub sort_by: SortKey,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub interval: Duration,
    /// Print once, also on a terminal
    #[arg(long)]
    pub once: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum What {
    #[default]
    #[value(alias = "node")]
    Nodes,
    #[value(alias = "job")]
    Jobs,
    #[value(alias = "gpu")]
    Gpus,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum SortKey {
    #[default]
    Utilization,
    Memory,
    Power,
    Gpus,
    Name,
}

impl From<SortKey> for Key {
    fn from(key: SortKey) -> Self {
        match key {
            SortKey::Utilization => Self::Utilization,
            SortKey::Memory => Self::Memory,
            SortKey::Power => Self::Power,
            SortKey::Gpus => Self::Gpus,
            SortKey::Name => Self::Name,
        }
    }
}
