//! `stats`: what hours came to, for the cluster, its namespaces, the bearers of a label, its workloads. Computed from
//! Prometheus' history; hours that are over are remembered.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use serde_json::Value;

use crate::error::Error;
use crate::view::hourly::{self as view, Kind, Page};
use crate::view::{Format, document};

use super::get_history::NONE_SERVED;
use super::hours::{Question, of_cluster};
use super::past::clusters;
use super::{World, times};

/// Show what hours came to: GPUs held, weighted by time, and how much of them was used
#[derive(Debug, Subcommand)]
pub enum Stats {
    Cluster(Of),
    #[command(visible_alias = "namespace")]
    Namespaces(Of),
    Labels(OfLabels),
    #[command(visible_alias = "workload")]
    Workloads(OfWorkloads),
}

/// Which hours of which clusters
#[derive(Args, Clone, Debug)]
pub struct Hours {
    /// Begin: RFC 3339, Unix seconds, a span before now such as 24h, or yesterday; 24h without it
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// End, in the same forms; now without it
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// Context of the kubeconfig whose cluster is meant
    #[arg(long, value_name = "NAME", conflicts_with = "all_contexts")]
    cluster: Option<String>,
    /// Every context of the kubeconfig; one that does not answer is told and left out
    #[arg(long)]
    all_contexts: bool,
    /// Neither read nor keep what hours came to
    #[arg(long)]
    no_cache: bool,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format; csv has every field
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: StatsFormat,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum StatsFormat {
    #[default]
    Table,
    Json,
    Yaml,
    Csv,
}

impl From<StatsFormat> for Format {
    fn from(format: StatsFormat) -> Self {
        match format {
            StatsFormat::Table => Self::Table,
            StatsFormat::Json => Self::Json,
            StatsFormat::Yaml => Self::Yaml,
            StatsFormat::Csv => Self::Csv,
        }
    }
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
pub struct Of {
    #[command(flatten)]
    hours: Hours,
}

/// GPUs of pods by the value of one of their labels or annotations
///
/// kube-state-metrics has to serve them: --metric-labels-allowlist=pods=[*], --metric-annotations-allowlist=pods=[*].
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl stats labels --dimension-type label --dimension-key team --start 7d -o json")]
pub struct OfLabels {
    /// Label or annotation
    #[arg(long, value_enum, default_value_t, value_name = "TYPE")]
    dimension_type: Dimension,
    /// Its key, such as team
    #[arg(long, value_name = "KEY")]
    dimension_key: String,
    /// Only this value
    #[arg(long, value_name = "VALUE")]
    dimension_value: Option<String>,
    #[command(flatten)]
    hours: Hours,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Dimension {
    #[default]
    Label,
    Annotation,
}

impl Dimension {
    pub fn word(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Annotation => "annotation",
        }
    }
}

/// Workloads hour by hour, those that are gone included
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl stats workloads --start 24h --order-by utilization --page-size 10
  gpuctl stats workloads -n team-a --workload-name bert --start 7d -o json")]
pub struct OfWorkloads {
    /// Only the workload of this name
    #[arg(long, value_name = "NAME")]
    workload_name: Option<String>,
    /// Only workloads of this kind, such as Job or Deployment
    #[arg(long, value_name = "KIND")]
    workload_type: Option<String>,
    /// Page, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    page: Option<u32>,
    /// Rows per page, 20 without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    page_size: Option<u32>,
    /// Order
    #[arg(long, value_enum, default_value_t, value_name = "KEY")]
    order_by: Order,
    /// Direction of the order: the newest hour first, the lowest utilization first
    #[arg(long, value_enum, value_name = "DIRECTION")]
    order_direction: Option<Direction>,
    #[command(flatten)]
    hours: Hours,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Order {
    #[default]
    Time,
    Utilization,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Direction {
    Asc,
    Desc,
}

/// Seconds of an hour.
const HOUR: i64 = 3600;

pub async fn run(args: &Stats, world: &World) -> Result<ExitCode, Error> {
    let (hours, question) = match args {
        Stats::Cluster(of) => (&of.hours, Question { kind: Kind::Cluster, namespace: None, dimension: None }),
        Stats::Namespaces(of) => (&of.hours, Question { kind: Kind::Namespaces, namespace: None, dimension: None }),
        Stats::Labels(of) => {
            let dimension = Some((of.dimension_type, of.dimension_key.as_str()));
            let namespace = world.access.namespace.as_deref();
            (&of.hours, Question { kind: Kind::Labels, namespace, dimension })
        }
        Stats::Workloads(of) => (&of.hours, Question { kind: Kind::Workloads, namespace: None, dimension: None }),
    };
    let format: Format = hours.output.into();
    world.terminal.set_format(format);
    let now = world.now().as_second();
    let (first, last) = hours.bounds(world.now())?;
    let chosen = clusters(hours.cluster.as_deref(), hours.all_contexts, world)?;
    let (mut rows, mut failed, several) = (Vec::new(), None, chosen.len() > 1);
    for (cluster, access) in chosen {
        match of_cluster(&question, cluster.clone(), &access, (first, last, now), hours.no_cache, world).await {
            Ok(found) => rows.extend(found),
            Err(error) if several => {
                world.terminal.warn(&format!("{cluster} is left out: {error}"));
                failed = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = failed.filter(|_| rows.is_empty()) {
        return Err(error);
    }
    if world.access.namespace.is_some() && question.kind != Kind::Cluster {
        rows.retain(|row| row["namespace"].as_str().is_none_or(|own| Some(own) == world.access.namespace.as_deref()));
    }
    let look = world.terminal.look();
    let text = match args {
        Stats::Workloads(of) => return of.print(rows, format, world),
        Stats::Labels(of) => {
            rows.retain(|row| of.dimension_value.as_deref().is_none_or(|value| row["dimension_value"] == value));
            document(format, &rows)
        }
        Stats::Cluster(_) | Stats::Namespaces(_) => document(format, &rows),
    };
    let text = text.unwrap_or_else(|| {
        let curve = if question.kind == Kind::Cluster && matches!(hours.output, StatsFormat::Table) {
            view::curve(&rows, first, last.min(now), look)
        } else {
            String::new()
        };
        curve + &view::table(question.kind, &rows, format, !hours.no_headers, look)
    });
    world.terminal.print(&text)?;
    if rows.is_empty() {
        world.terminal.note(match question.kind {
            Kind::Labels => NONE_SERVED,
            _ => "no GPU was requested in these hours",
        });
    }
    Ok(ExitCode::SUCCESS)
}

impl Hours {
    /// The first hour that begins at or after the start, and the end, in Unix seconds.
    fn bounds(&self, now: Timestamp) -> Result<(i64, i64), Error> {
        let (start, end) = times::past(self.start.as_deref(), self.end.as_deref(), now)?;
        let first = start.div_euclid(HOUR) * HOUR;
        Ok((if first < start { first + HOUR } else { first }, end))
    }
}

impl OfWorkloads {
    fn print(&self, mut rows: Vec<Value>, format: Format, world: &World) -> Result<ExitCode, Error> {
        rows.retain(|row| {
            self.workload_name.as_deref().is_none_or(|name| row["workload_name"] == name)
                && self
                    .workload_type
                    .as_deref()
                    .is_none_or(|kind| row["workload_type"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(kind)))
        });
        let usual = if self.order_by == Order::Time { Direction::Desc } else { Direction::Asc };
        let down = self.order_direction.unwrap_or(usual) == Direction::Desc;
        match self.order_by {
            // Rows come in order of time; those of an hour stay as they are.
            Order::Time if down => rows.sort_by(|a, b| b["stat_hour"].as_str().cmp(&a["stat_hour"].as_str())),
            Order::Time => {}
            Order::Utilization => rows.sort_by(|a, b| {
                let key = |row: &Value| row["avg_utilization"].as_f64();
                match (key(a), key(b)) {
                    (Some(a), Some(b)) if down => b.total_cmp(&a),
                    (Some(a), Some(b)) => a.total_cmp(&b),
                    // What is not known comes last, whatever the direction.
                    (a, b) => a.is_none().cmp(&b.is_none()),
                }
            }),
        }
        let (page, size) = (self.page.unwrap_or(1) as usize, self.page_size.unwrap_or(20) as usize);
        let total = rows.len();
        let data: Vec<Value> = rows.into_iter().skip((page - 1).saturating_mul(size)).take(size).collect();
        let (shown, pages) = (data.len(), total.div_ceil(size));
        let page = Page { total, page, page_size: size, total_pages: pages, data };
        let text = document(format, &page)
            .unwrap_or_else(|| view::table(Kind::Workloads, &page.data, format, !self.hours.no_headers, world.terminal.look()));
        world.terminal.print(&text)?;
        if total == 0 {
            world.terminal.note("no GPU was requested in these hours");
        } else if shown < total {
            world
                .terminal
                .announce(&format!("page {} of {pages}, {shown} of {total} rows; --page and --page-size show others", page.page));
        }
        Ok(ExitCode::SUCCESS)
    }
}
