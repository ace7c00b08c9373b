//! `gpuctl get jobs`: filters, sorts and pages the jobs.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use futures::future::join;

use crate::cli::args::columns::{Column, Output};
use crate::cli::args::format::ListFormat;
use crate::cli::jobs::get::{GetJobs, SortKey};
use crate::cluster::{Connection, Patience, Wanted};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::model::{Job, JobKind, State, Status};
use crate::observe::at_time;
use crate::observe::metrics::{self, Cells, OF_JOBS};
use crate::observe::progress::progress_of;
use crate::observe::watch::{self, Frame};
use crate::spec::nearest;
use crate::view::coverage::Coverage;
use crate::view::jobs::{self, JobItem, Row};
use crate::view::{Format, document};

/// Jobs on a page when only `--page` is given: the contract's number.
pub const PAGE_SIZE: u32 = 20;

const WATCH_STEP: Duration = Duration::from_secs(1);

pub async fn run(args: &GetJobs, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.format().into());
    if args.at.is_some() && matches!(args.output, Output::Columns(_)) {
        return Err(Error::usage("`--at` has columns of its own").hint("leave `custom-columns` out, or use `-o json`"));
    }
    if let Some(at) = &args.at {
        return at_time::list(at_time::List::Jobs, at, args.output.format().into(), !args.no_headers, context).await;
    }
    let connection = context.connect().await?;
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
        return watch(args, &connection, &wanted, context).await;
    }
    let cells = Cells::new(context, &connection);
    let (rows, total, coverage) = rows(args, &connection, &wanted, &cells, context, true).await?;
    context.terminal.print(&show(args, &rows, total, coverage, context)?)?;
    if rows.is_empty() {
        context.terminal.note("no jobs found");
    }
    if let Some(waiting) = rows.iter().find(|row| row.state.status == Status::Pending && row.state.reason.is_some()) {
        let job = &waiting.job;
        context.terminal.hint(&format!("{} waits; gpuctl describe job {}/{}", job.name, job.namespace, job.name));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(args: &GetJobs, rows: &[Row], total: usize, coverage: Option<Coverage>, context: &Context) -> Result<String, Error> {
    if let Output::Columns(columns) = &args.output {
        return own_columns(columns, rows, !args.no_headers, context);
    }
    let format: Format = args.output.format().into();
    Ok(match format {
        Format::Name => jobs::names(rows),
        Format::Json | Format::Yaml => document(format, &jobs::list(rows, total, coverage)).expect("these formats are documents"),
        Format::Table | Format::Wide | Format::Csv if rows.is_empty() && format != Format::Csv => String::new(),
        _ => jobs::table(rows, format, !args.no_headers, context.terminal.look(), context.now()),
    })
}

/// Fields of the JSON as columns.
fn own_columns(columns: &[Column], rows: &[Row], headers: bool, context: &Context) -> Result<String, Error> {
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
    Ok(jobs::own_columns(rows, &columns, headers, context.terminal.look()))
}

/// The jobs of the page in the order asked for, and how many there are on all pages.
async fn rows(
    args: &GetJobs,
    connection: &Connection,
    wanted: &Wanted,
    cells: &Cells<'_>,
    context: &Context,
    first: bool,
) -> Result<(Vec<Row>, usize, Option<Coverage>), Error> {
    // A watch outlives a restart of the API server; a single answer is an answer now.
    let patience = Patience::new(|failure| context.terminal.warn(&format!("{failure}; trying again")));
    let listed =
        async { if args.watch { patience.ask(|| connection.jobs(wanted)).await } else { connection.jobs(wanted).await } };
    let (selection, moment) =
        join(listed, cells.now(if matches!(args.output, Output::Usual(ListFormat::Name)) { &[] } else { &OF_JOBS })).await;
    let (selection, moment) = (selection?, moment?);
    let readings = moment.map(|moment| metrics::of_jobs(&moment, selection.jobs.iter()));
    if let Some(namespace) = selection.narrowed_to.filter(|_| first) {
        context.terminal.lack(&format!("you may not list jobs of all namespaces; only `{namespace}` is shown"));
    }
    if !selection.unreadable.is_empty() && first {
        context
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

async fn watch(args: &GetJobs, connection: &Connection, wanted: &Wanted, context: &Context) -> Result<ExitCode, Error> {
    let cells = Cells::new(context, connection);
    watch::watch(args.output.format().into(), WATCH_STEP, context, async |first| {
        let (rows, total, coverage) = rows(args, connection, wanted, &cells, context, first).await?;
        let items = rows.iter().map(|row| (format!("{}/{}", row.job.namespace, row.job.name), JobItem::from(row)));
        Ok(Frame::new(show(args, &rows, total, coverage, context)?, items))
    })
    .await
}
