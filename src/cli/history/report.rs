//! Arguments and help for `gpuctl report`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::args::output::output_format;
use crate::cli::args::value::{Expected, duration};

/// Report GPU-hours held, used and wasted, by team, namespace, user, pool, label or annotation
///
/// HELD is the time that pods were bound to GPUs, image pulls included. USED is HELD multiplied by
/// utilization, so an hour at 40 % counts as 0.4. WASTED was measured but not used. UNKNOWN was not
/// measured and counts as neither. HELD is USED + WASTED + UNKNOWN. UTIL is USED of the measured
/// GPU-hours; `stats` weights each five minutes equally instead, so its UTIL can differ.
///
/// PARTS are MIG slices and shares, in GPU-hours by their fraction of a GPU. COVERED is the
/// measured fraction of all GPU-hours that were held, or may have been while kube-state-metrics was
/// not scraped. H in a column title means GPU-hours, and QUOTA is in GPUs.
///
/// With --ettr it reports how jobs spent their time instead. The effective training time ratio is
/// the share of that time, waiting included, in which jobs made progress that they did not later
/// lose.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl report
  gpuctl report --mine --start month
  gpuctl report --by team --start 30d -o markdown
  gpuctl report --by team --start 30d -o html > report.html
  gpuctl report --by label=project --start 2026-01-01 --end 2026-02-01 --prices prices.yaml -o csv
  gpuctl report --by team,pool --budget budget.yaml --prices prices.yaml
  gpuctl report --by user --ettr --checkpoint 30m
  gpuctl report --by namespace --explain

prices.yaml:
  currency: EUR
  gpu_hour: 1.80
  kwh: 0.25

budget.yaml, for the reported period:
  groups:
    research: {gpu_hours: 5000, cost: 9000}
  default: {gpu_hours: 500}
  total: {cost: 20000}")]
pub(crate) struct Report {
    /// Group by namespace, team, user, pool, label=KEY or annotation=KEY, or by several of them
    /// separated by commas
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
    /// File with the prices of a GPU-hour and a kWh
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
    /// Sort the groups by this key [default: by name]
    #[arg(long, value_enum, value_name = "KEY")]
    pub sort_by: Option<ReportSortKey>,
    /// Omit the header row
    #[arg(long)]
    pub no_headers: bool,
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
    /// The argument as typed, and the label key in it.
    Label(String, String),
    Annotation(String, String),
}

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
            "pool" => Ok(label("gpuctl/pool")),
            _ => Err(Expected(
                "namespace, team, user, pool, label=KEY or annotation=KEY",
            )),
        },
        _ => Err(Expected(
            "namespace, team, user, pool, label=KEY or annotation=KEY",
        )),
    }
}
