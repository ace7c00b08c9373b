//! `gpuctl get metrics job`: prints a job's GPU metrics over time. Requires Prometheus.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::job::JobMetricsArgs;
use crate::context::Context;
use crate::lookup::LookupPurpose;
use crate::observe::curves::{self, lifetimes};
use crate::observe::past_jobs;
use crate::observe::training_telemetry::{self, log_sources};
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::query::Pods;
use gpuctl_core::stats::logs::training::Measure;
use gpuctl_view::document;
use gpuctl_view::history::metrics as view;
use gpuctl_view::history::metrics::{JobCurves, JobMetric};

/// Throughput metrics with their units, in order of preference.
const THROUGHPUTS: [(Measure, &str); 2] = [
    (Measure::TokensPerSecond, "tokens/sec"),
    (Measure::SamplesPerSecond, "samples/sec"),
];

pub(crate) async fn run(args: &JobMetricsArgs, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let now = context.now();
    // Report invalid arguments before sending requests.
    args.range.range().check(now)?;
    let connection = context.connect().await?;
    let job = past_jobs::job(context, &connection, &args.name, LookupPurpose::Read).await?;
    let created = UnixSeconds::from(job.created_at.unwrap_or(now));
    let started = job.started_at().map(UnixSeconds::from);
    let end = job.ended_at().unwrap_or(now);
    let requested = args
        .range
        .range()
        .window(now, (created.timestamp(), end), None)?;
    let prometheus = curves::find_store(context, &connection, requested.start).await?;
    let pods = Pods::for_job(
        &job.namespace,
        &job.name,
        job.kind,
        job.pods.iter().map(|pod| pod.name.as_str()),
    );
    // Replaced pods started before the current ones.
    let first = match args.range.start {
        Some(_) => started,
        None => curves::first_start(&prometheus, &pods, created, now.into())
            .await
            .into_iter()
            .chain(started)
            .min(),
    };
    let start = first.unwrap_or(created).timestamp();
    let window = args.range.range().window(now, (start, end), None)?;
    let quantities = [Quantity::Utilization, Quantity::MemoryUsed];
    let lifetimes = lifetimes(&job);
    let curves = curves::curves(context, &prometheus, &quantities, &pods, window, &lifetimes);
    let sources = log_sources(&job);
    let (curves, training) = join(
        curves,
        training_telemetry::read_logs(&connection, &sources, window, now.into()),
    )
    .await;
    let (history, exposed) = curves?;
    let mut training = training_telemetry::add_exposed(training, &exposed);
    let throughput = THROUGHPUTS
        .into_iter()
        .find_map(|(measure, unit)| Some((training.remove(&measure)?, unit)));
    let (throughput, throughput_unit) = throughput.unzip();
    let curves = JobCurves {
        history: &history,
        throughput: throughput.unwrap_or_default(),
        throughput_unit,
        from: window.start.millis(),
        to: window.end.millis(),
    };
    let selected: Vec<JobMetric> = args.metric.iter().map(|metric| (*metric).into()).collect();
    let text = document(args.output.into(), &view::job(&curves, &selected)).unwrap_or_else(|| {
        view::job_text(&curves, &selected, args.per_gpu, context.terminal.style())
    });
    context.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}
