//! `score`: who holds GPUs and how much of them is used, over a window. Metrics and nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures::future::join;

use crate::config::ScoreSettings;
use crate::error::Error;
use crate::model::quantity;
use crate::model::reading::PodKey;
use crate::prometheus::Window;
use crate::stats::devices;
use crate::stats::dialect::Quantity;
use crate::stats::history::{self, Lifetimes};
use crate::stats::identity::Facts;
use crate::stats::query;
use crate::stats::score::{Score, Thresholds, Weights};
use crate::view::exposition::{self, Analyses};
use crate::view::score::{self as view, Row};
use crate::view::{Format, document};

use super::metrics::{self, OF_NODES};
use super::{World, duration, get_nodes};

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
  gpuctl score -o prometheus > /var/lib/node_exporter/gpuctl.prom")]
pub struct ScoreArgs {
    /// All of them, those below the threshold, or sums
    #[arg(value_enum, default_value_t, value_name = "WHAT")]
    what: What,
    /// GPUs that no pod holds too; never in `low` and `stats`
    #[arg(long)]
    all: bool,
    /// Time that is looked at, up to now; 10m without it
    #[arg(long, value_name = "TIME", value_parser = duration)]
    window: Option<Duration>,
    /// Time between two samples; 30s without it
    #[arg(long, value_name = "TIME", value_parser = duration)]
    step: Option<Duration>,
    /// Score below which utilization is low; 20 without it
    #[arg(long, value_name = "SCORE", value_parser = points)]
    threshold: Option<f64>,
    /// Score below which a GPU is idle; 10 without it
    #[arg(long, value_name = "SCORE", value_parser = points)]
    idle: Option<f64>,
    /// Weights of utilization, memory copy, memory used and power
    #[arg(long, value_name = "N,N,N,N", value_delimiter = ',', num_args = 4)]
    weights: Option<Vec<f64>>,
    /// Order of the list: the lowest score first
    #[arg(long, value_enum, value_name = "KEY")]
    sort_by: Option<SortKey>,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format; prometheus is the text format that it scrapes
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: ScoreFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ScoreFormat {
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
enum What {
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

fn points(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "a number of 0 to 100".to_owned())?;
    if (0.0..=100.0).contains(&number) { Ok(number) } else { Err("a number of 0 to 100".to_owned()) }
}

/// The document's window and step, in seconds.
const WINDOW: f64 = 600.0;
const STEP: f64 = 30.0;

/// What a score is made of.
const QUANTITIES: [Quantity; 8] = [
    Quantity::Utilization,
    Quantity::MemoryCopy,
    Quantity::MemoryUsed,
    Quantity::MemoryFree,
    Quantity::MemoryTotal,
    Quantity::Power,
    Quantity::PowerLimit,
    Quantity::Clock,
];

/// Flags over environment and file over the document.
struct Settings {
    window: i64,
    step: i64,
    weights: Weights,
    thresholds: Thresholds,
}

fn settings(args: &ScoreArgs, file: Option<PathBuf>) -> Result<Settings, Error> {
    let spelled = |text: &str| quantity::duration(text).map(|span| span.as_secs_f64());
    let set = ScoreSettings::read(file.as_deref(), spelled).map_err(Error::usage)?;
    let seconds = |flag: Option<Duration>, set: Option<f64>, usual: f64| {
        let found = flag.map(|span| span.as_secs_f64()).or(set).unwrap_or(usual);
        #[expect(clippy::cast_possible_truncation, reason = "checked to be small")]
        if (1.0..=31_536_000.0).contains(&found) {
            Ok(found as i64)
        } else {
            Err(Error::usage("window and step are at least a second"))
        }
    };
    let (window, step) = (seconds(args.window, set.window_seconds, WINDOW)?, seconds(args.step, set.step_seconds, STEP)?);
    if step > window {
        return Err(Error::usage("the step is longer than the window"));
    }
    let usual = Weights::default();
    let usual = [usual.utilization, usual.memory_copy, usual.memory_used, usual.power];
    let flags = args.weights.as_deref().unwrap_or_default();
    let weight = |index: usize| flags.get(index).copied().or(set.weights[index]).unwrap_or(usual[index]);
    let weights = Weights { utilization: weight(0), memory_copy: weight(1), memory_used: weight(2), power: weight(3) };
    if (0..4).any(|index| !(weight(index) >= 0.0 && weight(index).is_finite())) || weights.utilization <= 0.0 {
        return Err(Error::usage("weights are not negative, and that of the utilization is more than 0"));
    }
    let thresholds = Thresholds {
        idle: args.idle.or(set.idle).unwrap_or(Thresholds::default().idle),
        low: args.threshold.or(set.low).unwrap_or(Thresholds::default().low),
        ..Thresholds::default()
    };
    if thresholds.idle > thresholds.low || thresholds.low > thresholds.high {
        return Err(Error::usage("idle, low and high are in this order"));
    }
    Ok(Settings { window, step, weights, thresholds })
}

pub async fn run(args: &ScoreArgs, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let Settings { window, step, weights, thresholds } = settings(args, world.config.clone())?;
    let connection = world.connect().await?;
    let now = world.now();
    let span = Window { start: now.as_second() - window, end: now.as_second(), step };
    let asked = async {
        let prometheus = metrics::find(world, &connection, world.access.request_timeout).await?;
        let curves = query::gauges(&QUANTITIES, None);
        let (moment, series) = join(metrics::moment(&prometheus, &OF_NODES, None), prometheus.range(&curves, span)).await;
        metrics::tell_warnings(world, &prometheus);
        Ok::<_, Error>((moment?, series?))
    };
    let (asked, stock) = join(asked, connection.stock()).await;
    let ((moment, series), stock) = (asked?, stock?);
    get_nodes::warn_of(&stock, world);
    let facts = Facts::of(&stock.inventory, stock.consumers.as_deref());
    let readings = devices::read(&moment, &stock.inventory, &facts);
    let starts: BTreeMap<PodKey, i64> = stock
        .consumers
        .iter()
        .flatten()
        .filter_map(|pod| Some(((pod.namespace.clone(), pod.name.clone()), pod.started_at?.as_millisecond())))
        .collect();
    let history = history::read(&series, &facts, &Lifetimes::new());
    let expected = usize::try_from(window / step + 1).unwrap_or(1);
    let namespace = connection.namespace_is_explicit.then_some(connection.namespace.as_str());
    let meant = |reading: &&crate::model::Reading| {
        (args.all && args.what == What::Results || reading.held == Some(true))
            && namespace.is_none_or(|namespace| reading.holders.iter().any(|(own, _)| own == namespace))
    };
    let mut rows: Vec<Row<'_>> = readings
        .devices
        .iter()
        .filter(meant)
        .map(|reading| {
            let same = |trace: &&history::Trace| {
                trace.node == reading.node && trace.index == reading.index && trace.slice == reading.slice
            };
            // What was measured before its pod began was somebody else's, or nobody's, whatever labels it had.
            let begins: Option<Vec<i64>> = reading.holders.iter().map(|holder| starts.get(holder).copied()).collect();
            let begin = match (reading.held, begins) {
                (Some(true), begins) => begins.and_then(|begins| begins.into_iter().max()),
                _ => Some(i64::MIN),
            };
            let trace = history.traces.iter().find(same).zip(begin).map(|(trace, begin)| trace.since(begin));
            let score = trace.map_or(Score::unknown(expected), |trace| Score::of(&trace, expected, weights, thresholds));
            Row { reading, score }
        })
        .collect();
    match args.sort_by {
        None => {}
        Some(SortKey::Score) => rows.sort_by(|a, b| {
            let key = |row: &Row<'_>| row.score.value.unwrap_or(f64::INFINITY);
            key(a).total_cmp(&key(b))
        }),
        Some(SortKey::Namespace) => rows.sort_by(|a, b| a.reading.holders.cmp(&b.reading.holders)),
        Some(SortKey::Node) => rows.sort_by(|a, b| a.reading.node.cmp(&b.reading.node)),
    }
    let (headers, look) = (!args.no_headers, world.terminal.look());
    let list = |rows: &[Row<'_>]| {
        if rows.is_empty() && format != Format::Csv { String::new() } else { view::table(rows, format, headers, look) }
    };
    let text = match args.what {
        _ if args.output == ScoreFormat::Prometheus => {
            let took = Duration::try_from(world.now().duration_since(now)).unwrap_or_default();
            exposition::text(&rows, &view::stats(&rows), Analyses { total: 1, errors: 0, took })
        }
        What::Results => document(format, &view::results(&rows, now)).unwrap_or_else(|| list(&rows)),
        What::Low => {
            let low = document(format, &view::low(&rows, thresholds.low, now));
            low.unwrap_or_else(|| {
                rows.retain(view::is_low);
                list(&rows)
            })
        }
        What::Stats => {
            let stats = view::stats(&rows);
            document(format, &stats).unwrap_or_else(|| view::stats_text(&stats))
        }
    };
    world.terminal.print(&text)?;
    if rows.is_empty() && args.output != ScoreFormat::Prometheus {
        world.terminal.note(if args.what == What::Low { "no GPU that is held is low" } else { "no GPU is held" });
    }
    Ok(ExitCode::SUCCESS)
}
