//! `get jobs`: one page of the list, once or again and again. Knows filters, order and pages; the state of a job is the
//! model's, its looks are the view's.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use futures::future::join;
use futures::stream::{self, StreamExt};

use crate::cluster::{Connection, LogLine, LogQuery, Patience, Wanted};
use crate::error::{Error, Kind};
use crate::model::{Job, JobKind, State, Status};
use crate::spec::nearest;
use crate::stats::progress;
use crate::view::coverage::Coverage;
use crate::view::jobs::{self, JobItem, Row};
use crate::view::{Format, document};

use super::columns::{Column, Output, OutputParser};
use super::metrics::{self, Cells, OF_JOBS};
use super::watch::{self, Frame};
use super::{ListFormat, World, completion, then};

/// List jobs and what they really do
///
/// The state is read from the pods: a job runs when all its pods run. The reason stands behind the status. Without -n
/// every namespace that you may read is listed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get jobs
  gpuctl get jobs --status pending --pool training-pool
  gpuctl get jobs -o custom-columns=NAME:.jobId,GPUS:.gpuHeld --no-headers
  gpuctl get jobs --mine -o json | jq '.items[] | select(.status == \"failed\")'")]
pub struct GetJobs {
    /// All namespaces, also when the context names one
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only jobs of this kind
    #[arg(long, value_name = "KIND", value_parser = ["training", "inference", "notebook", "compute"])]
    kind: Option<String>,
    /// Only jobs in this pool
    #[arg(long, value_name = "NAME", value_parser = super::object_name, add = ArgValueCandidates::new(completion::pool_names))]
    pool: Option<String>,
    /// Only jobs in this state
    #[arg(long, value_name = "STATUS", value_parser = ["pending", "running", "succeeded", "failed", "paused", "terminating", "unknown"])]
    status: Option<String>,
    /// Only jobs that I submitted
    #[arg(long)]
    mine: bool,
    /// Order of the list
    #[arg(long, value_enum, value_name = "KEY")]
    sort_by: Option<SortKey>,
    /// Page to print, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    page: Option<u32>,
    /// Jobs on a page
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    page_size: Option<u32>,
    /// Go on: redraw on a terminal, one JSON object per change in a pipe
    #[arg(short, long)]
    watch: bool,
    /// Do not look into logs for the progress
    #[arg(long)]
    no_progress: bool,
    /// All workloads as they were at a time, from Prometheus' history: RFC 3339, Unix seconds, a span before now such as 2h
    #[arg(long, value_name = "TIME", conflicts_with_all = ["kind", "pool", "status", "mine", "sort_by", "page", "page_size", "watch"])]
    at: Option<String>,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format; custom-columns=TITLE:.field,… has fields of the JSON
    #[arg(short, long, value_parser = OutputParser, default_value = "table", value_name = "FORMAT")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SortKey {
    Name,
    Age,
    Status,
    Gpu,
    Kind,
}

/// Jobs on a page when only `--page` is given: the contract's number.
const PAGE_SIZE: u32 = 20;
/// All log tails of one page together.
const PROGRESS_WITHIN: Duration = Duration::from_secs(1);
/// Logs that are read at the same time.
const AT_ONCE: usize = 16;
const WATCH_STEP: Duration = Duration::from_secs(1);

pub async fn run(args: &GetJobs, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.format().into());
    if args.at.is_some() && matches!(args.output, Output::Columns(_)) {
        return Err(Error::usage("`--at` has columns of its own").hint("leave `custom-columns` out, or use `-o json`"));
    }
    if let Some(at) = &args.at {
        return then::list(then::List::Jobs, at, args.output.format().into(), !args.no_headers, world).await;
    }
    let connection = world.connect().await?;
    let user = match args.mine {
        false => None,
        true => Some(connection.user().await?.ok_or_else(|| {
            Error::new(Kind::Request, "UserUnknown", "the API server does not tell who you are").hint("leave `--mine` out")
        })?),
    };
    let wanted = Wanted {
        namespace: connection.namespace_is_explicit.then(|| connection.namespace.clone()),
        name: None,
        kind: args.kind.as_deref().and_then(|kind| kind.parse::<JobKind>().ok()),
        pool: args.pool.clone(),
        user,
    };
    if args.watch {
        return watch(args, &connection, &wanted, world).await;
    }
    let cells = Cells::new(world, &connection);
    let (rows, total, coverage) = rows(args, &connection, &wanted, &cells, world, true).await?;
    world.terminal.print(&show(args, &rows, total, coverage, world)?)?;
    if rows.is_empty() {
        world.terminal.note("no jobs found");
    }
    if let Some(waiting) = rows.iter().find(|row| row.state.status == Status::Pending && row.state.reason.is_some()) {
        let job = &waiting.job;
        world.terminal.hint(&format!("{} waits; gpuctl describe job {}/{}", job.name, job.namespace, job.name));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(args: &GetJobs, rows: &[Row], total: usize, coverage: Option<Coverage>, world: &World) -> Result<String, Error> {
    if let Output::Columns(columns) = &args.output {
        return own_columns(columns, rows, !args.no_headers, world);
    }
    let format: Format = args.output.format().into();
    Ok(match format {
        Format::Name => jobs::names(rows),
        Format::Json | Format::Yaml => document(format, &jobs::list(rows, total, coverage)).expect("these formats are documents"),
        Format::Table | Format::Wide | Format::Csv if rows.is_empty() && format != Format::Csv => String::new(),
        _ => jobs::table(rows, format, !args.no_headers, world.terminal.look(), world.now()),
    })
}

/// Fields of the JSON as columns.
fn own_columns(columns: &[Column], rows: &[Row], headers: bool, world: &World) -> Result<String, Error> {
    let known = jobs::fields();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    for column in columns {
        let first = column.path[0].as_str();
        if !known.contains(&first) {
            let error = Error::usage(format!("a job has no field `{first}`"));
            return Err(match nearest(first, &known) {
                Some(near) => error.hint(format!("did you mean `.{near}`?")),
                None => error.hint(format!("fields: {}", known.join(", "))),
            });
        }
    }
    let columns: Vec<(&str, &[String])> = columns.iter().map(|column| (column.title.as_str(), &column.path[..])).collect();
    Ok(jobs::own_columns(rows, &columns, headers, world.terminal.look()))
}

/// The jobs of the page in the order asked for, and how many there are on all pages.
async fn rows(
    args: &GetJobs,
    connection: &Connection,
    wanted: &Wanted,
    cells: &Cells<'_>,
    world: &World,
    first: bool,
) -> Result<(Vec<Row>, usize, Option<Coverage>), Error> {
    // A watch outlives a restart of the API server; a single answer is an answer now.
    let patience = Patience::new(|failure| world.terminal.warn(&format!("{failure}; trying again")));
    let listed =
        async { if args.watch { patience.ask(|| connection.jobs(wanted)).await } else { connection.jobs(wanted).await } };
    let (selection, moment) =
        join(listed, cells.now(if matches!(args.output, Output::Usual(ListFormat::Name)) { &[] } else { &OF_JOBS })).await;
    let (selection, moment) = (selection?, moment?);
    let readings = moment.map(|moment| metrics::of_jobs(&moment, selection.jobs.iter()));
    if let Some(namespace) = selection.narrowed_to.filter(|_| first) {
        world.terminal.lack(&format!("you may not list jobs of all namespaces; only `{namespace}` is shown"));
    }
    if !selection.unreadable.is_empty() && first {
        world
            .terminal
            .lack(&format!("you may not list every kind of job: {}s are not shown", selection.unreadable.join("s and ")));
    }
    let status = args.status.as_deref().and_then(|status| status.parse::<Status>().ok());
    let mut found: Vec<(Job, State)> = selection
        .jobs
        .into_iter()
        .map(|job| {
            let state = State::of(&job);
            (job, state)
        })
        // Labels cannot hold every name, so two users may share one.
        .filter(|(job, _)| wanted.user.is_none() || job.user == wanted.user)
        .filter(|(_, state)| status.is_none_or(|status| state.status == status))
        .collect();
    match args.sort_by {
        None => {}
        Some(SortKey::Name) => found.sort_by(|a, b| a.0.name.cmp(&b.0.name)),
        Some(SortKey::Age) => found.sort_by_key(|(job, _)| std::cmp::Reverse(job.created_at)),
        Some(SortKey::Status) => found.sort_by_key(|(_, state)| state.status),
        Some(SortKey::Gpu) => found.sort_by_key(|(job, _)| std::cmp::Reverse(job.gpus())),
        Some(SortKey::Kind) => found.sort_by_key(|(job, _)| job.kind),
    }
    let total = found.len();
    if args.page.is_some() || args.page_size.is_some() {
        let size = args.page_size.unwrap_or(PAGE_SIZE) as usize;
        let skipped = (args.page.unwrap_or(1) as usize - 1).saturating_mul(size);
        found = found.into_iter().skip(skipped).take(size).collect();
    }
    let progress = if args.no_progress { BTreeMap::new() } else { progress_of(connection, &found).await };
    let row = |(index, (job, state)): (usize, (Job, State))| {
        let figures = readings.as_ref().map(|readings| metrics::figures_of(readings, &job));
        Row { job, state, progress: progress.get(&index).copied(), figures }
    };
    Ok((found.into_iter().enumerate().map(row).collect(), total, readings.as_ref().map(Coverage::from)))
}

/// Percent by index: one tail of rank 0's log per running training, all within a second.
async fn progress_of(connection: &Connection, jobs: &[(Job, State)]) -> BTreeMap<usize, f64> {
    let deadline = tokio::time::Instant::now() + PROGRESS_WITHIN;
    let running =
        jobs.iter().enumerate().filter(|(_, (job, state))| job.kind == JobKind::Training && state.status == Status::Running);
    let tails = running.map(|(index, (job, _))| async move {
        let lines = tokio::time::timeout_at(deadline, tail(connection, job)).await.ok()?;
        Some((index, progress::percent(lines.iter().map(|line| line.text.as_str()))?))
    });
    stream::iter(tails).buffer_unordered(AT_ONCE).filter_map(|found| async move { found }).collect().await
}

/// The newest lines of the first rank; none where they cannot be had.
pub(super) async fn tail(connection: &Connection, job: &Job) -> Vec<LogLine> {
    let pods = job.current_pods();
    let Some(pod) = pods.first() else { return Vec::new() };
    let query = LogQuery { container: pod.own_container().to_owned(), tail: Some(40), ..LogQuery::default() };
    connection.log(&job.namespace, &pod.name, &query).await.unwrap_or_default()
}

async fn watch(args: &GetJobs, connection: &Connection, wanted: &Wanted, world: &World) -> Result<ExitCode, Error> {
    let cells = Cells::new(world, connection);
    watch::watch(args.output.format().into(), WATCH_STEP, world, async |first| {
        let (rows, total, coverage) = rows(args, connection, wanted, &cells, world, first).await?;
        let items = rows.iter().map(|row| (format!("{}/{}", row.job.namespace, row.job.name), JobItem::from(row)));
        Ok(Frame::new(show(args, &rows, total, coverage, world)?, items))
    })
    .await
}
