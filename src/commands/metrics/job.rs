//! `gpuctl get metrics job`: prints GPU metrics of a job over time. It requires Prometheus.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::job::JobMetricsArgs;
use crate::context::Context;
use crate::lookup::{self, LookupPurpose};
use crate::observe::curves::{self, lifetimes};
use crate::observe::training_telemetry::{self, speakers};
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::query::Pods;
use gpuctl_core::stats::logs::training::Measure;
use gpuctl_view::document;
use gpuctl_view::history::metrics as view;
use gpuctl_view::history::metrics::{JobCurves, JobMetric};

/// Measures of throughput with their units. The first one that a job reports is shown.
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
    let found = lookup::job(&connection, &args.name, LookupPurpose::Read).await?;
    let created = UnixSeconds::from(found.created_at.unwrap_or(now));
    let started = found.started_at().map(UnixSeconds::from);
    let end = found.ended_at().unwrap_or(now);
    let named = args
        .range
        .range()
        .window(now, (created.timestamp(), end), None)?;
    let prometheus = curves::store(context, &connection, named.start).await?;
    let pods = Pods::of_job(
        &found.namespace,
        &found.name,
        found.kind,
        found.pods.iter().map(|pod| pod.name.as_str()),
    );
    // A replaced pod started before the existing ones.
    let first = match args.range.start {
        Some(_) => started,
        None => curves::first_start(&prometheus, &pods, created, now.into())
            .await
            .into_iter()
            .chain(started)
            .min(),
    };
    let begin = first.unwrap_or(created).timestamp();
    let window = args.range.range().window(now, (begin, end), None)?;
    let quantities = [Quantity::Utilization, Quantity::MemoryUsed];
    let lifetimes = lifetimes(&found);
    let curves = curves::curves(context, &prometheus, &quantities, &pods, window, &lifetimes);
    let speakers = speakers(&found);
    let (curves, told) = join(
        curves,
        training_telemetry::by_logs(&connection, &speakers, window, now.into()),
    )
    .await;
    let (history, exposed) = curves?;
    let mut told = training_telemetry::with_exposed(told, &exposed);
    let throughput = THROUGHPUTS
        .into_iter()
        .find_map(|(measure, unit)| Some((told.remove(&measure)?, unit)));
    let (throughput, throughput_unit) = throughput.unzip();
    let curves = JobCurves {
        history: &history,
        throughput: throughput.unwrap_or_default(),
        throughput_unit,
        from: window.start.millis(),
        to: window.end.millis(),
    };
    let only: Vec<JobMetric> = args.metric.iter().map(|shown| (*shown).into()).collect();
    let text = document(args.output.into(), &view::job(&curves, &only))
        .unwrap_or_else(|| view::job_text(&curves, &only, args.per_gpu, context.terminal.style()));
    context.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}
