//! `gpuctl describe job`: reads a job's details concurrently and prints them.

use std::process::ExitCode;

use futures::future::{join, join3, join5};
use jiff::Timestamp;

use crate::cli::jobs::describe::DescribeJob;
use crate::context::Context;
use crate::lookup::LookupPurpose;
use crate::observe::live::{self, JOB_QUANTITIES};
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::past_jobs;
use crate::observe::progress::{JobProgress, head, job_progress, tail};
use gpuctl_cluster::{Connection, Failure};
use gpuctl_core::error::Error;
use gpuctl_core::model::facts::startup::Startup;
use gpuctl_core::model::{
    Autoscaler, Endpoint, GpuCount, Job, JobKind, State, Status, UnixSeconds,
};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::exporters::query::Pods;
use gpuctl_core::stats::history::curves as history;
use gpuctl_core::stats::history::curves::Lifetimes;
use gpuctl_core::stats::logs::{steps, training};
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
    let mut job = past_jobs::job(context, &connection, &args.name, purpose).await?;
    // Mask secrets in every format, because scripts store and print the output.
    job.source = job.source.map(|source| masked(&source));
    let state = State::from_job(&job);
    let metrics = OptionalMetrics::new(context, &connection);
    let work = async {
        if job.gpus_held() > GpuCount::ZERO {
            work(&metrics, &job, context).await
        } else {
            Ok(None)
        }
    };
    let last_lines_of_failed = async {
        if state.status == Status::Failed {
            connection.logs().last_lines(&job, 5).await
        } else {
            Vec::new()
        }
    };
    let log_figures = log_figures(&connection, &job, &state, context.now());
    let first_step = first_step(&connection, &job, &state);
    let (((progress, throughput), last_lines, first_step_at), events, objects, endpoints, work) =
        join5(
            join3(log_figures, last_lines_of_failed, first_step),
            connection.events().for_job(&job),
            connection.jobs().objects_of(&job),
            endpoints(&connection, &job),
            work,
        )
        .await;
    let events = match events {
        Err(failure) if failure.is_forbidden() => {
            context
                .terminal
                .warn_missing_permission("you are not allowed to list events: none are shown");
            Vec::new()
        }
        events => events?,
    };
    let (objects, (addresses, autoscaler), work) = (objects?, endpoints?, work?);
    let startup = Startup::new(&job, &events, first_step_at);
    let description = gpuctl_view::jobs::description::Description {
        job,
        state,
        progress: progress.as_ref().map(|progress| progress.percent),
        remaining: progress.and_then(|progress| progress.remaining),
        startup,
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

/// Reads a running job's progress and throughput from its log.
async fn log_figures(
    connection: &Connection,
    job: &Job,
    state: &State,
    now: Timestamp,
) -> (Option<JobProgress>, Option<String>) {
    let is_training = job.kind == JobKind::Training;
    if state.status != Status::Running || !(is_training || job.kind == JobKind::Inference) {
        return (None, None);
    }
    let lines = tail(connection, job).await;
    let texts = lines.iter().map(|line| line.text.as_str());
    (
        job_progress(job, &lines, now).filter(|_| is_training),
        training::throughput(texts),
    )
}

/// Reads when a running training logged its first step.
async fn first_step(connection: &Connection, job: &Job, state: &State) -> Option<Timestamp> {
    if state.status != Status::Running || job.kind != JobKind::Training {
        return None;
    }
    let lines = head(connection, job).await;
    steps::first_step(
        lines
            .iter()
            .filter_map(|line| Some((line.at?, line.text.as_str()))),
    )
}

/// Reads the addresses and the autoscaler of a serving job.
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
    let full_name = format!("{}/{}", job.namespace, job.name);
    if job.kind == JobKind::Notebook && state.status == Status::Running {
        context.terminal.hint(&format!("gpuctl open {full_name}"));
    } else if !state.status.is_final() {
        context
            .terminal
            .hint(&format!("gpuctl logs {full_name} -f"));
    } else if state.status == Status::Failed {
        context.terminal.hint(&format!("gpuctl logs {full_name}"));
    }
}

/// Length of the curve, in seconds.
const CURVE_SECONDS: i64 = 3600;

const STEP_SECONDS: i64 = 60;

/// Minimum length of the curve's time axis, in seconds.
const MIN_AXIS_SECONDS: i64 = 300;

/// Returns the window of the curve, and the number of seconds in it during which the job ran.
fn curve_window(job: &Job, now: Timestamp) -> (Window, i64) {
    // The curve of a new job covers only the job's runtime.
    let run_seconds = job
        .started_at()
        .map_or(0, |at| now.as_second() - at.as_second())
        .clamp(0, CURVE_SECONDS);
    let span = run_seconds.clamp(MIN_AXIS_SECONDS, CURVE_SECONDS);
    let step = if span < CURVE_SECONDS {
        (span / 60).max(15)
    } else {
        STEP_SECONDS
    };
    let window = Window {
        start: UnixSeconds::from(now) - span,
        end: now.into(),
        step,
    };
    (window, run_seconds)
}

/// Reads the live metrics and the last hour's curves of the job's devices.
async fn work(
    metrics: &OptionalMetrics<'_>,
    job: &Job,
    context: &Context,
) -> Result<Option<JobWork>, Error> {
    let (window, run_seconds) = curve_window(job, context.now());
    let pod_names: Vec<&str> = job
        .pods
        .iter()
        .filter(|pod| pod.holds())
        .map(|pod| pod.name.as_str())
        .collect();
    let pods = Pods::by_name(&job.namespace, pod_names);
    let curves = query::gauges(&[Quantity::Utilization], Some(&pods));
    let query = metrics.optional(async |prometheus| {
        let reading = live::read(prometheus, &JOB_QUANTITIES, Some(&pods));
        let (reading, series) = join(reading, prometheus.range(&curves, window)).await;
        Ok((reading?, series?))
    });
    let Some((reading, series)) = query.await? else {
        return Ok(None);
    };
    let readings = live::job_readings(&reading, std::iter::once(job));
    let milliseconds = |time: Option<Timestamp>| time.map(Timestamp::as_millisecond);
    let lifetimes: Lifetimes = job
        .pods
        .iter()
        .map(|pod| {
            (
                (job.namespace.clone(), pod.name.clone()),
                (milliseconds(pod.started_at.or(pod.created_at)), None),
            )
        })
        .collect();
    let history = history::read(&series, &ApiFacts::default(), &lifetimes);
    let note = history::unused(
        &history,
        usize::try_from(run_seconds / window.step).unwrap_or(0),
    )
    .filter(|_| run_seconds >= 10 * STEP_SECONDS);
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
