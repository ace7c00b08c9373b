//! Arguments and help for `gpuctl get overview`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;

/// Show an overview of the cluster, with nodes, allocated and used GPUs, storage and network
///
/// Utilization is the mean over allocated GPUs; free GPUs do not lower it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get overview
  gpuctl get overview --all-contexts
  gpuctl get overview -o json | jq .utilization")]
pub(crate) struct GetOverview {
    /// Show a row for each kubeconfig context, and their sum; a context that cannot be read is
    /// skipped with a warning
    #[arg(long, conflicts_with = "watch")]
    pub all_contexts: bool,
    /// Keep watching; redraw on a terminal, or print one JSON object per change when piped
    #[arg(short, long)]
    pub watch: bool,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
