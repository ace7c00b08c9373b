//! `gpuctl get metrics workload`: prints a workload's GPU metrics over time. Requires Prometheus.

use std::collections::BTreeMap;
use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::workload::WorkloadMetrics;
use crate::context::Context;
use crate::observe::curves::{self, milliseconds};
use crate::observe::training_telemetry::{self, workload_log_sources};
use crate::observe::workloads::{self, gpu_pods};
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::forest::Branch;
use gpuctl_core::model::facts::work_pod::WorkPod;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_view::document;
use gpuctl_view::history::workload_graphs as view;

/// Default step of the curves in seconds.
const WORKLOAD_STEP: i64 = 60;

pub(crate) async fn run(args: &WorkloadMetrics, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let now = context.now();
    let window = args
        .range
        .range()
        .window_of_an_hour(now, Some(WORKLOAD_STEP))?;
    let connection = context.connect().await?;
    let snapshot = workloads::read_named(context, &connection, &[], &args.name).await?;
    let workload = workloads::find_workload(&snapshot.workloads, &args.name)?;
    let quantities = [
        Quantity::Utilization,
        Quantity::MemoryUsed,
        Quantity::MemoryFree,
        Quantity::MemoryTotal,
        Quantity::Power,
    ];
    let prometheus = curves::find_store(context, &connection, window.start).await?;
    let pods = curves::add_deleted_pods(
        &prometheus,
        gpu_pods(workload),
        &owners_below(&snapshot.forest.branch(&workload.top)),
        window,
    )
    .await?;
    // Series that are older than the pod belong to the pod that it replaced, so accept series since
    // the workload's creation.
    let since = |pod: &WorkPod| milliseconds(workload.top.created_at.or(pod.created_at));
    let lifetimes = workload
        .pods
        .iter()
        .map(|pod| (pod.key(), (since(pod), milliseconds(pod.ended_at))))
        .collect();
    let curves = curves::curves(context, &prometheus, &quantities, &pods, window, &lifetimes);
    let sources = workload_log_sources(workload);
    let (curves, training_curves) = join(
        curves,
        training_telemetry::read_logs(&connection, &sources, window, now.into()),
    )
    .await;
    let (history, exposed) = curves?;
    let training_curves = training_telemetry::add_exposed(training_curves, &exposed);
    let text = document(
        args.output.into(),
        &view::workload(&history, &training_curves),
    )
    .unwrap_or_else(|| {
        view::workload_text(
            &history,
            window.start.millis(),
            window.end.millis(),
            context.terminal.style(),
        )
    });
    context.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Collects the names of a workload's objects that may own pods, by kind.
fn owners_below(branch: &Branch) -> BTreeMap<String, Vec<String>> {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut pending = vec![branch];
    while let Some(branch) = pending.pop() {
        if branch.kind != "Pod" {
            owners
                .entry(branch.kind.clone())
                .or_default()
                .push(branch.name.clone());
        }
        pending.extend(&branch.children);
    }
    owners
}
