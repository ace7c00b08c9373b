//! `gpuctl get training-performance`: prints the loss, throughput and learning rate that a training
//! reports.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::training_performance::TrainingPerformance;
use crate::context::Context;
use crate::observe::training_telemetry::{self, workload_log_sources};
use crate::observe::workloads::{self, gpu_pods};
use crate::observe::{curves, metrics};
use gpuctl_core::error::Error;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::logs::training::TrainingCurves;
use gpuctl_view::document;
use gpuctl_view::history::training_performance as view;

pub(crate) async fn run(args: &TrainingPerformance, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let now = context.now();
    let window = args.range.range().window_of_an_hour(now, None)?;
    let connection = context.connect().await?;
    let snapshot = workloads::read_named(context, &connection, &[], &args.name).await?;
    let workload = workloads::find_workload(&snapshot.workloads, &args.name)?;
    let exposed = async {
        let prometheus = curves::find_store(context, &connection, window.start).await?;
        let pods = gpu_pods(workload);
        let query = async {
            if pods.names.is_empty() {
                Ok(Vec::new())
            } else {
                prometheus.range(&query::exposed(&pods), window).await
            }
        };
        let series = query.await?;
        metrics::print_warnings(context, &prometheus);
        Ok::<_, Error>(series)
    };
    let sources = workload_log_sources(workload);
    let (exposed, curves) = join(
        exposed,
        training_telemetry::read_logs(&connection, &sources, window, now.into()),
    )
    .await;
    let exposed = match exposed {
        Err(error) if !curves.is_empty() && !context.require_metrics => {
            context
                .terminal
                .warn(&format!("{error}; the following data comes only from logs"));
            Vec::new()
        }
        exposed => exposed?,
    };
    let curves: TrainingCurves = training_telemetry::add_exposed(curves, &exposed);
    let text = document(args.output.into(), &view::performance(&curves)).unwrap_or_else(|| {
        view::performance_text(
            &curves,
            window.start.millis(),
            window.end.millis(),
            context.terminal.style(),
        )
    });
    context.terminal.print(&text)?;
    if curves.is_empty() {
        context
            .terminal
            .note("no known training metrics or log lines were found in this period");
    }
    Ok(ExitCode::SUCCESS)
}
