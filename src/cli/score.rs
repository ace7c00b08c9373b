//! `score`: who holds GPUs and how much of them is used, over a window. Metrics and nothing else.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::error::{Error, Kind};
use crate::files;
use crate::stats::scored::Scored;
use crate::view::exposition::{self, Analyses};
use crate::view::{Format, document, score as view};

use super::analysis::{Analysis, analyze};
use super::score_settings::{Scoring, Settings, Telling};
use super::{World, duration, score_outbound, score_watch};

/// Score how much of every held GPU is used: idle, low, normal, high, or unknown
///
/// score = 0.5·utilization + 0.2·memory copy + 0.2·memory used + 0.1·power, each the mean over the window in percent of what
/// the GPU has. Below 10 is idle, below 20 low, above 70 high. A GPU with less than half of the expected samples is unknown,
/// never idle; a term that is not measured is shared among the others, and named.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl score
  gpuctl score low -o json
  gpuctl score stats --window 1h
  gpuctl score -n team-a --threshold 30
  gpuctl score --watch=5m --listen 127.0.0.1:9400
  gpuctl score --textfile /var/lib/node_exporter/gpuctl.prom
  gpuctl score low --ai --notify https://hooks.slack.com/services/…
  gpuctl score --control-api https://reclaim.example.com/api/optimize --control-status idle")]
pub struct ScoreArgs {
    /// All of them, those below the threshold, or sums
    #[arg(value_enum, default_value_t, value_name = "WHAT")]
    pub what: What,
    /// GPUs that no pod holds too; never in `low` and `stats`
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    scoring: Scoring,
    /// Order of the list: the lowest score first
    #[arg(long, value_enum, value_name = "KEY")]
    sort_by: Option<SortKey>,
    /// Analyze again and again, every 5m without an interval, until SIGTERM; a changed config file is read again
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "INTERVAL", value_parser = seconds)]
    pub watch: Option<Option<Duration>>,
    /// Serve /metrics, /health, /results, /results/low and /results/stats at this address
    #[arg(long, value_name = "HOST:PORT", requires = "watch")]
    pub listen: Option<String>,
    /// Write what `-o prometheus` prints to a file at once, for node-exporter's textfile collector
    #[arg(long, value_name = "PATH")]
    pub textfile: Option<PathBuf>,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format; prometheus is the text format that it scrapes
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: ScoreFormat,
    #[command(flatten)]
    telling: Telling,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ScoreFormat {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    Csv,
    Prometheus,
}

impl From<ScoreFormat> for Format {
    fn from(format: ScoreFormat) -> Self {
        match format {
            ScoreFormat::Wide => Self::Wide,
            ScoreFormat::Json => Self::Json,
            ScoreFormat::Yaml => Self::Yaml,
            ScoreFormat::Csv => Self::Csv,
            ScoreFormat::Table | ScoreFormat::Prometheus => Self::Table,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum What {
    #[default]
    Results,
    Low,
    Stats,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SortKey {
    Score,
    Namespace,
    Node,
}

/// `5m`, or seconds as INTERVAL has them.
fn seconds(text: &str) -> Result<Duration, String> {
    let span = text.parse().map(Duration::from_secs).or_else(|_| duration(text))?;
    if span.is_zero() { Err("more than no time".to_owned()) } else { Ok(span) }
}

impl ScoreArgs {
    /// With what environment and config file say now.
    pub fn settings(&self, world: &World) -> Result<Settings, Error> {
        let settings = Settings::of(&self.scoring, &self.telling, self.watch.flatten(), &world.config()?)?;
        world.terminal.set_talk(settings.talk);
        Ok(settings)
    }

    /// The devices that are listed, in the order that was asked for.
    pub fn list(&self, devices: Vec<Scored>) -> Vec<Scored> {
        let all = self.all && self.what == What::Results;
        let mut list: Vec<Scored> = devices.into_iter().filter(|device| all || device.reading.held == Some(true)).collect();
        match self.sort_by {
            None => {}
            Some(SortKey::Score) => list.sort_by(|a, b| {
                let key = |row: &Scored| row.score.value.unwrap_or(f64::INFINITY);
                key(a).total_cmp(&key(b))
            }),
            Some(SortKey::Namespace) => list.sort_by(|a, b| a.reading.holders.cmp(&b.reading.holders)),
            Some(SortKey::Node) => list.sort_by(|a, b| a.reading.node.cmp(&b.reading.node)),
        }
        list
    }

    /// What stdout gets of an analysis.
    pub fn text(&self, analysis: &Analysis, analyses: &Analyses, headers: bool, world: &World) -> String {
        let (format, look) = (self.output.into(), world.terminal.look());
        let rows = &analysis.devices;
        let list = |rows: &[Scored]| {
            if rows.is_empty() && format != Format::Csv {
                String::new()
            } else {
                view::table(rows, format, headers && !self.no_headers, look)
            }
        };
        match self.what {
            _ if self.output == ScoreFormat::Prometheus => exposition::text(Some((rows, &view::stats(rows))), analyses),
            What::Results => document(format, &view::results(rows, analysis.at)).unwrap_or_else(|| list(rows)),
            What::Low => {
                let low = view::low(rows, analysis.rules.thresholds.low, analysis.at);
                let kept = || list(&rows.iter().filter(|row| row.is_low()).cloned().collect::<Vec<_>>());
                document(format, &low).unwrap_or_else(kept)
            }
            What::Stats => {
                let stats = view::stats(rows);
                document(format, &stats).unwrap_or_else(|| view::stats_text(&stats))
            }
        }
    }
}

pub async fn run(args: &ScoreArgs, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let settings = args.settings(world)?;
    if args.watch.is_some() {
        return score_watch::run(args, settings, world).await;
    }
    let mut analysis = analyze(&settings, world, &Cell::default()).await?;
    score_outbound::ask(&settings, &mut analysis, None, world).await;
    let mut analyses = Analyses::default();
    analyses.succeeded(analysis.took.as_secs_f64());
    // Others are told of what is held; what is listed here is another question.
    let told = analysis.clone();
    analysis.devices = args.list(std::mem::take(&mut analysis.devices));
    world.terminal.print(&args.text(&analysis, &analyses, true, world))?;
    if args.output != ScoreFormat::Prometheus {
        if analysis.devices.is_empty() {
            world.terminal.note("no GPU is held");
        } else if args.what == What::Low && !analysis.devices.iter().any(Scored::is_low) {
            world.terminal.note("no GPU that is held is low");
        }
    }
    // All of it is tried, whatever became of the first.
    let mut outcomes = Vec::new();
    if let Some(path) = &args.textfile {
        let text = exposition::text(Some((&analysis.devices, &view::stats(&analysis.devices))), &analyses);
        outcomes.push(write(path, &text));
    }
    if let Some(plan) = &settings.notify {
        outcomes.push(score_outbound::notify(plan, &mut None, &told, world).await);
    }
    if let Some(plan) = &settings.control {
        outcomes.push(score_outbound::control(plan, settings.workers, &told, &Cell::default(), world).await);
    }
    let mut errors: Vec<Error> = outcomes.into_iter().filter_map(Result::err).collect();
    let last = errors.pop();
    errors.iter().for_each(|error| world.terminal.fail(error));
    last.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Everybody may read it: node-exporter is somebody else.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    let written = files::replace(path, text.as_bytes(), 0o644);
    written.map_err(|told| Error::new(Kind::Request, "TextfileFailed", told))
}
