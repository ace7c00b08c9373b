//! Arguments and help of `gpuctl get pools`.

use clap::{Args, ValueEnum};

use crate::cli::args::format::ListFormat;
use crate::cli::args::page::Page;

/// List pools: their GPUs, how many are free, their types
///
/// A pool is the nodes with its label; its definition adds a description, allowed types and a quota.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get pools
  gpuctl get pools -o json")]
pub struct GetPools {
    /// Order of the list
    #[arg(long, value_enum, value_name = "KEY")]
    pub sort_by: Option<SortKey>,
    #[command(flatten)]
    pub page: Page,
    /// Go on: redraw on a terminal, one JSON object per change in a pipe
    #[arg(short, long)]
    pub watch: bool,
    /// Leave the titles out
    #[arg(long)]
    pub no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: ListFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SortKey {
    Name,
    Gpus,
    Free,
    Jobs,
}
