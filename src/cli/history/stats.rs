//! Arguments and help for `gpuctl stats`.

use clap::{Args, ValueEnum};

use crate::cli::args::list::{PageArgs, PrintArgs};
use crate::cli::args::value::dimension;
use crate::observe::hourly::Dimension;

/// Hours and clusters to report
#[derive(Args, Clone, Debug)]
pub(crate) struct HourArgs {
    /// Start time in RFC 3339 or Unix seconds, a span before now such as 24h, or yesterday
    /// [default: 24h]
    #[arg(long, value_name = "TIME")]
    pub start: Option<String>,
    /// End time, in the same formats [default: now]
    #[arg(long, value_name = "TIME")]
    pub end: Option<String>,
    /// Query every kubeconfig context; a cluster that does not respond is skipped with a warning
    #[arg(long)]
    pub all_contexts: bool,
    /// Ignore cached data for completed hours
    #[arg(long)]
    pub no_cache: bool,
    /// Sort the rows by this key [default: by time]
    #[arg(long, alias = "order-by", value_enum, value_name = "KEY")]
    pub sort_by: Option<StatsSortKey>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub print: PrintArgs,
}

#[derive(Args, Debug)]
pub(crate) struct HourStatsArgs {
    #[command(flatten)]
    pub hours: HourArgs,
}

/// Show hourly statistics, grouped by a pod label or annotation
///
/// Requires kube-state-metrics with --metric-labels-allowlist=pods=[*] and
/// --metric-annotations-allowlist=pods=[*]. UTIL gives each five minutes the same weight. `report`
/// weights by GPU-hours, so its UTIL can differ.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl stats labels --dimension-type label --dimension-key team --start 7d -o json")]
pub(crate) struct LabelStatsArgs {
    /// Label or annotation
    #[arg(long, value_parser = dimension(), default_value = "label", value_name = "TYPE")]
    pub dimension_type: Dimension,
    /// Key, such as team
    #[arg(long, value_name = "KEY")]
    pub dimension_key: String,
    /// Show only this value
    #[arg(long, value_name = "VALUE")]
    pub dimension_value: Option<String>,
    #[command(flatten)]
    pub hours: HourArgs,
}

/// Show hourly statistics of workloads, including deleted ones
///
/// UTIL gives each five minutes the same weight. `report` weights by GPU-hours, so its UTIL can
/// differ.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl stats workloads --start 24h --sort-by utilization --page-size 10
  gpuctl stats workloads -n team-a --workload-name bert --start 7d -o json")]
pub(crate) struct WorkloadStatsArgs {
    /// Show only workloads with this name
    #[arg(long, value_name = "NAME")]
    pub workload_name: Option<String>,
    /// Show only workloads of this kind, such as Job or Deployment
    #[arg(long, value_name = "KIND")]
    pub workload_type: Option<String>,
    /// Sort direction [default: newest hour first, lowest utilization first]
    #[arg(long, value_enum, value_name = "DIRECTION")]
    pub order_direction: Option<Direction>,
    #[command(flatten)]
    pub hours: HourArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    Asc,
    Desc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsSortKey {
    /// By time; for workloads, newest first
    Time,
    /// By the name of the namespace, value or workload
    Name,
    /// Most allocated GPUs first
    Held,
    /// Lowest utilization first; unknown last
    Utilization,
}
