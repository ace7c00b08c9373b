//! Arguments and help for `gpuctl report`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::args::output::output_format;
use crate::cli::args::value::{Expected, duration};
use crate::config::SettingKey;

/// Report GPU-hours held, used and wasted, by team, namespace, user, pool, GPU type, node or label
///
/// HELD is the number of GPU-hours that pods held GPUs, image pulls included. USED is HELD
/// multiplied by the utilization: an hour at 40 % counts as 0.4. WASTED is the rest of the measured
/// hours. UNKNOWN is the part of HELD without measurements, and is in neither USED nor WASTED.
/// COVERED is the measured percentage of HELD and of the unseen hours, which pods may have held while
/// kube-state-metrics had no samples. UTIL is USED divided by the measured hours, while `gpuctl stats`
/// gives each five minutes the same weight, so the two can differ. PARTS is the GPU-hours of MIG slices and shares,
/// each counted as its fraction of a GPU. QUOTA is a number of GPUs.
///
/// By gpu-type, node, pool or cluster, the report also shows the CAPACITY of the nodes. It is the
/// sum of ALLOCATED (HELD and PARTS), IDLE and UNSEEN. IDLE GPUs were held by no pod; CORDONED and
/// LOST are those of them that pods could not get. UNSEEN are gaps of kube-state-metrics. By
/// anything else, a note names the capacity of the cluster.
///
/// With --ettr, reports the effective training time ratio (ETTR) instead: the share of the jobs'
/// time, including waiting, during which they made progress that was not lost later.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl report
  gpuctl report --mine --start month
  gpuctl report --by team --start 30d -o markdown
  gpuctl report --by team --start 30d -o html > report.html
  gpuctl report -o html --send 'smtp://mail.example.com?from=gpu@example.com&to=head@example.com'
  gpuctl report -o html --send /reports/ --send https://hooks.example.com/… --execute
  gpuctl report --by label=project --start 2026-01-01 --end 2026-02-01 --prices prices.yaml -o csv
  gpuctl report --by team,pool --budget budget.yaml --prices prices.yaml
  gpuctl report --by gpu-type --start month
  gpuctl report --by team,gpu-type --prices prices.yaml
  gpuctl report --all-contexts --by team --start month
  gpuctl report --by user --ettr --checkpoint 30m
  gpuctl report --by namespace --explain

prices.yaml, in which each price but one is optional:
  currency: EUR
  gpu_hour: 1.80                          # of GPUs without another price
  gpu_types: {a100-80g: 1.80, h100-80g: 3}
  pools: {spot: 0.90, lab: {h100-80g: 2}} # instead of the prices above
  kwh: 0.25

budget.yaml, for the reported period:
  groups:
    research: {gpu_hours: 5000, cost: 9000}
  default: {gpu_hours: 500}
  total: {cost: 20000}")]
pub(crate) struct Report {
    /// Group by namespace, team, user, pool, gpu-type, node, cluster, label=KEY or annotation=KEY, or
    /// by several of them separated by commas
    #[arg(long, visible_alias = "group", value_name = "WHAT", default_value = "namespace", value_delimiter = ',', value_parser = group_by)]
    pub by: Vec<GroupBy>,
    /// Start time in RFC 3339 or Unix seconds, a span before now such as 7d, a month such as
    /// 2026-01, yesterday, or month for the start of this month
    #[arg(long, alias = "from", value_name = "TIME", default_value = "7d")]
    pub start: String,
    /// End time, in the same formats [default: now]
    #[arg(long, alias = "to", value_name = "TIME")]
    pub end: Option<String>,
    /// Only pods of jobs that you submitted; kube-state-metrics must export their labels
    #[arg(long)]
    pub mine: bool,
    /// File with the prices of a GPU-hour, also by GPU type and pool, and of a kWh
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// File with each group's budget for this time range, to show how much remains
    #[arg(long, value_name = "FILE")]
    pub budget: Option<PathBuf>,
    /// Show the jobs' effective training time ratio, goodput, waiting times and interruptions
    #[arg(long)]
    pub ettr: bool,
    /// Time between two checkpoints of a job; an interruption is assumed to lose half of it
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    pub checkpoint: Option<Duration>,
    /// Print the PromQL behind the columns without running it
    #[arg(long)]
    pub explain: bool,
    /// Report about all kubeconfig contexts, with the groups of each and one total; a context that
    /// cannot be read is skipped with a warning
    #[arg(long, conflicts_with = "budget")]
    pub all_contexts: bool,
    /// Sort the groups by this key [default: by name]
    #[arg(long, value_enum, value_name = "KEY")]
    pub sort_by: Option<ReportSortKey>,
    /// Omit the header row
    #[arg(long)]
    pub no_headers: bool,
    #[arg(
        long,
        num_args = 0..=1,
        default_missing_value = "",
        value_name = "WHERE",
        help_heading = "Delivery options",
        help = SettingKey::help_with("report.send", "; may be repeated")
    )]
    pub send: Vec<String>,
    /// Actually send the report. Without this, --send prints the report and its receivers, and only
    /// writes files
    #[arg(long, requires = "send", help_heading = "Delivery options")]
    pub execute: bool,
    /// Output format
    #[arg(short, long, value_parser = output_format::<ReportFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: ReportFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    #[default]
    Table,
    Json,
    Yaml,
    Name,
    Csv,
    Markdown,
    /// A single page with plots that works offline
    Html,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ReportSortKey {
    Name,
    /// Most GPU-hours held first
    Held,
    /// Most GPU-hours wasted first; unknown last
    Wasted,
}

/// A dimension of `--by`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupBy {
    Namespace,
    /// The pool of the pod's label, or else of its node.
    Pool,
    GpuType,
    Node,
    Cluster,
    /// The argument as typed, and the label key in it.
    Label(String, String),
    Annotation(String, String),
}

/// The values of `--by`.
const DIMENSIONS: &str =
    "namespace, team, user, pool, gpu-type, node, cluster, label=KEY or annotation=KEY";

pub(crate) fn group_by(text: &str) -> Result<GroupBy, Expected> {
    let label = |key: &str| GroupBy::Label(text.to_owned(), key.to_owned());
    match text.split_once('=') {
        Some(("label", key)) if !key.is_empty() => Ok(label(key)),
        Some(("annotation", key)) if !key.is_empty() => {
            Ok(GroupBy::Annotation(text.to_owned(), key.to_owned()))
        }
        None => match text {
            "namespace" => Ok(GroupBy::Namespace),
            "team" => Ok(label("team")),
            "user" => Ok(label("gpuctl/user")),
            "pool" => Ok(GroupBy::Pool),
            "gpu-type" => Ok(GroupBy::GpuType),
            "node" => Ok(GroupBy::Node),
            "cluster" => Ok(GroupBy::Cluster),
            _ => Err(Expected(DIMENSIONS)),
        },
        _ => Err(Expected(DIMENSIONS)),
    }
}
