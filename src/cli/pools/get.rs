//! Arguments and help for `gpuctl get pools`.

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::ListArgs;
use crate::cli::candidates;

/// List pools, their GPU types, and how many of their GPUs are free
///
/// A pool is the set of nodes with its label. Its definition adds a description, allowed types and
/// a quota. `po` means pools here, not pods as in kubectl; `gpuctl describe job` lists pods.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get pools
  gpuctl get pools -o json")]
pub(crate) struct GetPools {
    /// Names of the pools [default: all]
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::pool_names))]
    pub names: Vec<String>,
    #[command(flatten)]
    pub list: ListArgs<PoolSortKey>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PoolSortKey {
    Name,
    Gpus,
    Free,
    Jobs,
}
