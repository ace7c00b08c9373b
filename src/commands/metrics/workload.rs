//! `gpuctl get metrics workload`: prints the curves of the GPUs of a workload. Without Prometheus it fails.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::workload::WorkloadMetrics;
use crate::context::Context;
use crate::error::Error;
use crate::observe::curves::{curves, milliseconds};
use crate::observe::training_telemetry::{self, speakers_of};
use crate::observe::workloads::{self, pods_of};
use crate::stats::dialect::Quantity;
use crate::view::document;
use crate::view::metrics as view;

/// Seconds between two points of a workload's curves: the document's default.
const WORKLOAD_STEP: i64 = 60;

pub(crate) async fn run(args: &WorkloadMetrics, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let now = context.now();
    let window = args.range.range().window_of_an_hour(now, Some(WORKLOAD_STEP))?;
    let connection = context.connect().await?;
    let found = workloads::read_once(context, &connection, &[]).await?;
    let workload = workloads::named(&found.workloads, &args.name)?;
    let quantities = [Quantity::Utilization, Quantity::MemoryUsed, Quantity::MemoryFree, Quantity::MemoryTotal, Quantity::Power];
    let pods = pods_of(workload);
    let lifetimes = workload
        .pods
        .iter()
        .map(|pod| (pod.key(), (milliseconds(pod.started_at.or(pod.created_at)), milliseconds(pod.ended_at))))
        .collect();
    let curves = curves(context, &connection, &quantities, &pods, window, &lifetimes);
    let speakers = speakers_of(workload);
    let (curves, told) = join(curves, training_telemetry::by_logs(&connection, &speakers, window, now.into())).await;
    let (history, exposed) = curves?;
    let told = training_telemetry::with_exposed(told, &exposed);
    let text = document(args.output.into(), &view::workload(&history, &told))
        .unwrap_or_else(|| view::workload_text(&history, window.start.millis(), window.end.millis(), context.terminal.look()));
    context.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}
