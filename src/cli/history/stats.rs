//! Arguments and help of `gpuctl stats`.

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::args::list::{PageArgs, PrintArgs};
use crate::cli::args::value::dimension;
use crate::observe::hourly::Dimension;

/// Show what hours came to: GPUs held, weighted by time, and how much of them was used
#[derive(Debug, Subcommand)]
pub(crate) enum StatsCommand {
    Cluster(HourStatsArgs),
    #[command(visible_alias = "namespace")]
    Namespaces(HourStatsArgs),
    Labels(LabelStatsArgs),
    #[command(visible_alias = "workload")]
    Workloads(WorkloadStatsArgs),
}

/// Which hours of which clusters
#[derive(Args, Clone, Debug)]
pub(crate) struct HourArgs {
    /// Begin: RFC 3339, Unix seconds, a span before now such as 24h, or yesterday; 24h without it
    #[arg(long, value_name = "TIME")]
    pub start: Option<String>,
    /// End, in the same forms; now without it
    #[arg(long, value_name = "TIME")]
    pub end: Option<String>,
    /// Context of the kubeconfig whose cluster is meant
    #[arg(long, value_name = "NAME", conflicts_with = "all_contexts")]
    pub cluster: Option<String>,
    /// Every context of the kubeconfig; one that does not answer is told and left out
    #[arg(long)]
    pub all_contexts: bool,
    /// Neither read nor keep what hours came to
    #[arg(long)]
    pub no_cache: bool,
    /// Sort the rows by this key; without it they are in order of time
    #[arg(long, value_enum, value_name = "KEY")]
    pub sort_by: Option<StatsSortKey>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub print: PrintArgs,
}

/// The cluster, or its namespaces, hour by hour
///
/// Utilization is of the GPUs that a pod held: the mean of each five minutes, of which an hour has twelve. An hour of which
/// nothing is known is there, and empty; the present one is marked.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl stats cluster
  gpuctl stats cluster --start 2026-01-01T00:00:00Z --end 2026-02-01T00:00:00Z -o csv
  gpuctl stats namespaces -n team-a --start yesterday --end today -o json")]
pub(crate) struct HourStatsArgs {
    #[command(flatten)]
    pub hours: HourArgs,
}

/// GPUs of pods by the value of one of their labels or annotations
///
/// kube-state-metrics has to serve them: --metric-labels-allowlist=pods=[*], --metric-annotations-allowlist=pods=[*].
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl stats labels --dimension-type label --dimension-key team --start 7d -o json")]
pub(crate) struct LabelStatsArgs {
    /// Label or annotation
    #[arg(long, value_parser = dimension(), default_value = "label", value_name = "TYPE")]
    pub dimension_type: Dimension,
    /// Its key, such as team
    #[arg(long, value_name = "KEY")]
    pub dimension_key: String,
    /// Only this value
    #[arg(long, value_name = "VALUE")]
    pub dimension_value: Option<String>,
    #[command(flatten)]
    pub hours: HourArgs,
}

/// Workloads hour by hour, those that are gone included
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl stats workloads --start 24h --order-by utilization --page-size 10
  gpuctl stats workloads -n team-a --workload-name bert --start 7d -o json")]
pub(crate) struct WorkloadStatsArgs {
    /// Only the workload of this name
    #[arg(long, value_name = "NAME")]
    pub workload_name: Option<String>,
    /// Only workloads of this kind, such as Job or Deployment
    #[arg(long, value_name = "KIND")]
    pub workload_type: Option<String>,
    /// Sort by this key: the aggregation document's name for --sort-by [default: time]
    #[arg(long, value_enum, value_name = "KEY", conflicts_with = "sort_by")]
    pub order_by: Option<StatsOrder>,
    /// Direction of the order: the newest hour first, the lowest utilization first
    #[arg(long, value_enum, value_name = "DIRECTION")]
    pub order_direction: Option<Direction>,
    #[command(flatten)]
    pub hours: HourArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsOrder {
    Time,
    Utilization,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    Asc,
    Desc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsSortKey {
    /// In order of time; workloads begin with the newest
    Time,
    /// The name of the namespace, value or workload
    Name,
    /// The most held GPUs first
    Held,
    /// The lowest utilization first; unknown last
    Utilization,
}

impl From<StatsOrder> for StatsSortKey {
    fn from(order: StatsOrder) -> Self {
        match order {
            StatsOrder::Time => Self::Time,
            StatsOrder::Utilization => Self::Utilization,
        }
    }
}
