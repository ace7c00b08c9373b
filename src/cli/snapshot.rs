//! `snapshot`: who held what at a time, now or in history, from kube-state-metrics alone: pods that are gone included.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Connection;
use crate::error::{Error, Kind};
use crate::model::quantity;
use crate::stats::kube_state;
use crate::view::snapshot::{self as view, At, Details, Uids};
use crate::view::{Format, document};

use super::past::{Past, Want, clusters, uids};
use super::stats::StatsFormat;
use super::{OneFormat, World, times};

/// Show who held which GPUs at a time
#[derive(Debug, Subcommand)]
pub enum Snapshot {
    Latest(Latest),
    List(List),
}

/// The newest snapshot: every namespace with its workloads
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl snapshot latest
  gpuctl snapshot latest --annotation cost-center -o json")]
pub struct Latest {
    /// Context of the kubeconfig whose cluster is meant
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Group by this annotation of pods as well
    #[arg(long, value_name = "KEY")]
    annotation: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// Snapshots of the last day, or of any time, every five minutes
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl snapshot list --start 6h
  gpuctl snapshot list --start yesterday --end today --step 1h --details -o json")]
pub struct List {
    /// Begin: RFC 3339, Unix seconds, a span before now such as 24h, or yesterday; 24h without it
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// End, in the same forms; now without it
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// Time between two snapshots, a multiple of 5m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = step)]
    step: i64,
    /// Say of each who held what
    #[arg(long)]
    details: bool,
    /// Group by this annotation of pods as well
    #[arg(long, value_name = "KEY", requires = "details")]
    annotation: Option<String>,
    /// Context of the kubeconfig whose cluster is meant
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: StatsFormat,
}

/// Seconds of the document's sampling.
const STEP: i64 = 300;
/// Seconds that are read at a time.
const HOUR: i64 = 3600;
/// Hours that are read at the same time.
const AT_ONCE: usize = 3;

fn step(text: &str) -> Result<i64, String> {
    let seconds = text.parse().ok().or_else(|| i64::try_from(quantity::duration(text)?.as_secs()).ok());
    seconds.filter(|seconds| *seconds > 0 && seconds % STEP == 0).ok_or_else(|| "a multiple of 5m".to_owned())
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or_default()
}

pub async fn run(args: &Snapshot, world: &World) -> Result<ExitCode, Error> {
    match args {
        Snapshot::Latest(args) => latest(args, world).await,
        Snapshot::List(args) => list(args, world).await,
    }
}

async fn latest(args: &Latest, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let (cluster, access) = clusters(args.cluster.as_deref(), false, world)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let past = Past::of(cluster, world, &connection).await?;
    let now = world.now().as_second();
    let want = Want { names: args.annotation.is_some(), ..Want::default() };
    let annotation = args.annotation.as_deref().map(kube_state::written);
    let uids = uids(&connection, now).await;
    let details = Details { uids: &uids, annotation: annotation.as_deref() };
    let mut found = None;
    // A cluster that is younger than the last five minutes has none there.
    for time in [now.div_euclid(STEP) * STEP, now] {
        let (ledger, usage) = past.look(time - STEP, time, want).await?;
        if ledger.looks() > 0 {
            let at = At { cluster: &past.cluster, time: at(time), ledger: &ledger, usage: &usage };
            found = Some(view::snapshot(&at, Some(details), true));
            break;
        }
    }
    super::metrics::tell_warnings(world, &past.prometheus);
    let Some(found) = found else { return Err(silent(&past)) };
    world.terminal.print(&document(format, &found).unwrap_or_else(|| view::text(&found, world.terminal.look())))?;
    Ok(ExitCode::SUCCESS)
}

/// Without kube-state-metrics nobody knows who held what.
fn silent(past: &Past<'_>) -> Error {
    let error =
        Error::new(Kind::NotFound, "NoHistory", format!("Prometheus at {} knows nothing of pods", past.prometheus.server));
    error.hint("it has to scrape kube-state-metrics; `gpuctl get nodes` shows the present without it")
}

async fn list(args: &List, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let now = world.now();
    let (start, last) = times::past(args.start.as_deref(), args.end.as_deref(), now)?;
    let (cluster, access) = clusters(args.cluster.as_deref(), false, world)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let past = Past::of(cluster, world, &connection).await?;
    let uids = if args.details { uids(&connection, start).await } else { Uids::new() };
    let annotation = args.annotation.as_deref().map(kube_state::written);
    let details = args.details.then_some(Details { uids: &uids, annotation: annotation.as_deref() });
    let times: Vec<i64> = (start.div_euclid(args.step)..=last.div_euclid(args.step))
        .map(|number| number * args.step)
        .filter(|time| (start..=last).contains(time))
        .collect();
    // What is asked for together: a snapshot looks back, so one on the hour belongs to the hour before.
    let groups: Vec<Vec<i64>> =
        times.chunk_by(|a, b| (a - 1).div_euclid(HOUR) == (b - 1).div_euclid(HOUR)).map(<[i64]>::to_vec).collect();
    let bar = world.terminal.progress(groups.len() as u64, "hours");
    let want = Want { names: args.annotation.is_some(), ..Want::default() };
    let of_group = async |times: Vec<i64>| {
        let (first, last) = (times[0] - STEP, times[times.len() - 1]);
        let (ledger, usage) = past.look(first, last, want).await?;
        bar.inc(1);
        let one = |time: &i64| {
            let at = At { cluster: &past.cluster, time: at(*time), ledger: &ledger, usage: &usage };
            view::snapshot(&at, details, false)
        };
        Ok::<_, Error>(times.iter().map(one).collect::<Vec<Value>>())
    };
    let found: Result<Vec<Vec<Value>>, Error> = stream::iter(groups).map(of_group).buffered(AT_ONCE).try_collect().await;
    bar.finish_and_clear();
    super::metrics::tell_warnings(world, &past.prometheus);
    let rows: Vec<Value> = found?.into_iter().flatten().collect();
    let text = document(format, &rows).unwrap_or_else(|| view::table(&rows, format, !args.no_headers, world.terminal.look()));
    world.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}
