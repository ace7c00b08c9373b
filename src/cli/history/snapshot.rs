//! Arguments and help for `gpuctl snapshot`.

use clap::{Args, ValueEnum};

use crate::cli::args::format::OneFormat;
use crate::cli::args::list::ListArgs;
use crate::cli::args::output::output_format;
use crate::cli::args::value::Expected;
use gpuctl_core::model::values::quantity;

/// Show the latest snapshot of namespaces and their workloads
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl snapshot latest
  gpuctl snapshot latest --annotation cost-center -o json")]
pub(crate) struct Latest {
    /// Also group by this pod annotation
    #[arg(long, value_name = "KEY")]
    pub annotation: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

/// Show five-minute snapshots for the last day or a given range
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl snapshot list --start 6h
  gpuctl snapshot list --start yesterday --end today --step 1h --details -o json")]
pub(crate) struct SnapshotList {
    /// Start time in RFC 3339 or Unix seconds, a span before now such as 24h, or yesterday
    /// [default: 24h]
    #[arg(long, value_name = "TIME")]
    pub start: Option<String>,
    /// End time, in the same formats [default: now]
    #[arg(long, value_name = "TIME")]
    pub end: Option<String>,
    /// Time between two snapshots, a multiple of 5m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = step)]
    pub step: i64,
    /// Include the workloads that held GPUs
    #[arg(long)]
    pub details: bool,
    /// Also group by this pod annotation
    #[arg(long, value_name = "KEY", requires = "details")]
    pub annotation: Option<String>,
    #[command(flatten)]
    pub list: ListArgs<SnapshotSortKey>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SnapshotSortKey {
    Time,
    /// Most allocated GPUs first
    Held,
}

/// Seconds between two snapshots, as defined by the API contract.
pub(crate) const STEP: i64 = 300;

pub(crate) fn step(text: &str) -> Result<i64, Expected> {
    let seconds = text
        .parse()
        .ok()
        .or_else(|| i64::try_from(quantity::duration(text)?.as_secs()).ok());
    seconds
        .filter(|seconds| *seconds > 0 && seconds % STEP == 0)
        .ok_or(Expected("a multiple of 5m"))
}
