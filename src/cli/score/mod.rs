//! Arguments and help for `gpuctl score`.

pub(crate) mod settings;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::args::list::PageArgs;
use crate::cli::args::output::output_format;
use crate::cli::args::value::{Expected, duration};
use crate::cli::score::settings::{OutboundArgs, ScoringArgs};
use crate::config::SettingKey;
use gpuctl_view::Format;

/// Score the utilization of every allocated GPU as idle, low, normal, high or unknown
///
/// score = 0.5·utilization + 0.2·memory copy + 0.2·memory used + 0.1·power, each as the mean over
/// the window in percent of the GPU's capacity. Below 10 is idle, below 20 low, above 70 high. A
/// GPU with less than half of the expected samples is unknown, never idle. If a term has no data,
/// the remaining terms share its weight. JSON (`terms`) and -o wide (TERMS) then omit it, and
/// tables on a terminal mark the score with `*`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl score
  gpuctl score low -o json
  gpuctl score stats --start 1h
  gpuctl score -n team-a --threshold 30
  gpuctl score --watch=5m --listen 127.0.0.1:9400
  gpuctl score --textfile /var/lib/node_exporter/gpuctl.prom
  gpuctl score low --ai --notify https://hooks.slack.com/services/…
  gpuctl score --control-api https://reclaim.example.com/api/optimize --control-status idle")]
pub(crate) struct ScoreArgs {
    /// What to show: all scores, only those below the threshold, or totals
    #[arg(value_enum, default_value_t, value_name = "WHAT")]
    pub what: ScoreView,
    /// Include unallocated GPUs; has no effect on `low` and `stats`
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub scoring: ScoringArgs,
    /// Sort the list by this key [default: lowest score first]
    #[arg(long, value_enum, value_name = "KEY")]
    pub sort_by: Option<ScoreSortKey>,
    #[command(flatten)]
    pub page: PageArgs,
    /// Repeat the analysis until SIGTERM, every 5m or at the given interval; reloads a changed
    /// config file
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "INTERVAL", value_parser = seconds)]
    pub watch: Option<Option<Duration>>,
    #[arg(
        long,
        value_name = "HOST:PORT",
        requires = "watch",
        help = SettingKey::help("server.listen")
    )]
    pub listen: Option<String>,
    #[arg(
        long,
        value_name = "NAME",
        requires = "watch",
        help = SettingKey::help_with("server.allow_hosts", "; may be repeated")
    )]
    pub allow_host: Vec<String>,
    /// Atomically write the output of `-o prometheus` to a file, for node-exporter's textfile
    /// collector
    #[arg(long, value_name = "PATH")]
    pub textfile: Option<PathBuf>,
    /// Omit the header row
    #[arg(long)]
    pub no_headers: bool,
    /// Output format; prometheus is the text format that Prometheus scrapes
    #[arg(short, long, value_parser = output_format::<ScoreFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: ScoreFormat,
    #[command(flatten)]
    pub telling: OutboundArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ScoreFormat {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    Name,
    Csv,
    Prometheus,
}

impl From<ScoreFormat> for Format {
    fn from(format: ScoreFormat) -> Self {
        match format {
            ScoreFormat::Wide => Self::Wide,
            ScoreFormat::Json => Self::Json,
            ScoreFormat::Yaml => Self::Yaml,
            ScoreFormat::Name => Self::Name,
            ScoreFormat::Csv => Self::Csv,
            ScoreFormat::Table | ScoreFormat::Prometheus => Self::Table,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScoreView {
    #[default]
    Results,
    Low,
    Stats,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ScoreSortKey {
    Score,
    Namespace,
    Node,
}

/// Parses a duration such as `5m`, or a number of seconds as in the variable INTERVAL.
pub(crate) fn seconds(text: &str) -> Result<Duration, Expected> {
    let span = text
        .parse()
        .map(Duration::from_secs)
        .or_else(|_| duration(text))?;
    if span.is_zero() {
        Err(Expected("a duration greater than zero"))
    } else {
        Ok(span)
    }
}
