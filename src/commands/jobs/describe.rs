//! `gpuctl describe job`: reads the details of one job concurrently and prints them.

use std::process::ExitCode;

use futures::future::{join, join5};

use crate::cli::jobs::describe::DescribeJob;
use crate::context::Context;
use crate::lookup::{self, LookupPurpose};
use crate::observe::live::{self, OF_JOBS};
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::progress::tail;
use gpuctl_cluster::{Connection, Failure};
use gpuctl_core::error::Error;
use gpuctl_core::model::{
    Autoscaler, Endpoint, GpuCount, Job, JobKind, Percent, State, Status, UnixSeconds,
};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::exporters::query::Pods;
use gpuctl_core::stats::history::curves as history;
use gpuctl_core::stats::history::curves::Lifetimes;
use gpuctl_core::stats::logs::{progress, training};
use gpuctl_manifest::spec::masked;
use gpuctl_prometheus::Window;
use gpuctl_view::document;
use gpuctl_view::jobs::describe;
use gpuctl_view::jobs::description;
use gpuctl_view::jobs::description::JobWork;

pub(crate) async fn run(args: &DescribeJob, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let purpose = if args.to_delete {
        LookupPurpose::Change
    } else {
        LookupPurpose::Read
    };
    let mut job = lookup::job(&connection, &args.name, purpose).await?;
    // Mask secrets in every format, because scripts print and store the output.
    job.source = job.source.map(|source| masked(&source));
    let state = State::of(&job);
    let cells = OptionalMetrics::new(context, &connection);
    let work = async {
        if job.gpus_held() > GpuCount::ZERO {
            work(&cells, &job, context).await
        } else {
            Ok(None)
        }
    };
    let last = async {
        if state.status == Status::Failed {
            connection.logs().last_lines(&job, 5).await
        } else {
            Vec::new()
        }
    };
    let (((progress, throughput), last_lines), events, objects, endpoints, work) = join5(
        join(log_figures(&connection, &job, &state), last),
        connection.events().of_job(&job),
        connection.jobs().objects_of(&job),
        endpoints(&connection, &job),
        work,
    )
    .await;
    let events = match events {
        Err(failure) if failure.is_forbidden() => {
            context
                .terminal
                .warn_missing_permission("you may not list events: none are shown");
            Vec::new()
        }
        other => other?,
    };
    let (objects, (addresses, autoscaler), work) = (objects?, endpoints?, work?);
    let description = gpuctl_view::jobs::description::Description {
        job,
        state,
        progress,
        events,
        objects,
        addresses,
        autoscaler,
        throughput,
        work,
        last_lines,
    };
    let text = document(args.output.into(), &description::document(&description))
        .unwrap_or_else(|| describe::text(&description, context.terminal.style(), context.now()));
    context.terminal.print(&text)?;
    suggest_next(&description.job, &description.state, context);
    Ok(ExitCode::SUCCESS)
}

/// Reads progress and throughput from the log of a running job.
async fn log_figures(
    connection: &Connection,
    job: &Job,
    state: &State,
) -> (Option<Percent>, Option<String>) {
    let is_training = job.kind == JobKind::Training;
    if state.status != Status::Running || !(is_training || job.kind == JobKind::Inference) {
        return (None, None);
    }
    let lines = tail(connection, job).await;
    let lines = || lines.iter().map(|line| line.text.as_str());
    (
        progress::percent(lines()).filter(|_| is_training),
        training::throughput(lines()),
    )
}

/// Reads the addresses and the autoscaler of a job that serves requests.
async fn endpoints(
    connection: &Connection,
    job: &Job,
) -> Result<(Vec<Endpoint>, Option<Autoscaler>), Failure> {
    if !job.kind.serves() {
        return Ok((Vec::new(), None));
    }
    let (addresses, autoscaler) = join(
        connection.services().addresses(job),
        connection.services().autoscaler(job),
    )
    .await;
    Ok((addresses?, autoscaler?))
}

fn suggest_next(job: &Job, state: &State, context: &Context) {
    let full = format!("{}/{}", job.namespace, job.name);
    if job.kind == JobKind::Notebook && state.status == Status::Running {
        context.terminal.hint(&format!("gpuctl open {full}"));
    } else if !state.status.is_final() {
        context.terminal.hint(&format!("gpuctl logs {full} -f"));
    } else if state.status == Status::Failed {
        context.terminal.hint(&format!("gpuctl logs {full}"));
    }
}

/// Seconds of the curve; below it, seconds between two of its points.
const HOUR: i64 = 3600;

const STEP: i64 = 60;

/// Minimum length of the time axis in seconds.
const SHORTEST: i64 = 300;

/// Computes the window of the curve, and how much of it the job has run, in seconds.
fn curve_window(job: &Job, now: jiff::Timestamp) -> (Window, i64) {
    // A job that has run for seconds gets a shorter axis than an hour.
    let lived = job
        .started_at()
        .map_or(0, |at| now.as_second() - at.as_second())
        .clamp(0, HOUR);
    let span = lived.clamp(SHORTEST, HOUR);
    let step = if span < HOUR {
        (span / 60).max(15)
    } else {
        STEP
    };
    let window = Window {
        start: UnixSeconds::from(now) - span,
        end: now.into(),
        step,
    };
    (window, lived)
}

/// Reads the job's device metrics of now and of the last hour.
async fn work(
    cells: &OptionalMetrics<'_>,
    job: &Job,
    context: &Context,
) -> Result<Option<JobWork>, Error> {
    let (window, lived) = curve_window(job, context.now());
    let current: Vec<&str> = job
        .pods
        .iter()
        .filter(|pod| pod.holds())
        .map(|pod| pod.name.as_str())
        .collect();
    let pods = Pods::named(&job.namespace, current);
    let curves = query::gauges(&[Quantity::Utilization], Some(&pods));
    let asked = cells.optional(async |prometheus| {
        let moment = live::read(prometheus, &OF_JOBS, Some(&pods));
        let (moment, series) = join(moment, prometheus.range(&curves, window)).await;
        Ok((moment?, series?))
    });
    let Some((moment, series)) = asked.await? else {
        return Ok(None);
    };
    let readings = live::of_jobs(&moment, std::iter::once(job));
    let alive = |at: Option<jiff::Timestamp>| at.map(jiff::Timestamp::as_millisecond);
    let lifetimes: Lifetimes = job
        .pods
        .iter()
        .map(|pod| {
            (
                (job.namespace.clone(), pod.name.clone()),
                (alive(pod.started_at.or(pod.created_at)), None),
            )
        })
        .collect();
    let history = history::read(&series, &ApiFacts::default(), &lifetimes);
    let note = history::unused(&history, usize::try_from(lived / window.step).unwrap_or(0))
        .filter(|_| lived >= 10 * STEP);
    Ok(Some(JobWork {
        figures: live::figures_of(&readings, job),
        curve: history::mean(
            history
                .traces
                .iter()
                .map(|trace| trace.curve(Quantity::Utilization)),
        ),
        readings,
        from: window.start.millis(),
        to: window.end.millis(),
        note,
    }))
}
