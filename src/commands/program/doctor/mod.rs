//! `gpuctl doctor`: checks the cluster, Prometheus, its exporters and the autoscaling metrics.

mod bundle;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::cli::program::doctor::Doctor;
use crate::context::Context;
use crate::observe::metrics::StoreUse;
use crate::observe::{checks, metrics, store_checks};
use gpuctl_core::error::Error;
use gpuctl_core::stats::exporters::{query, recorded};
use gpuctl_prometheus::Prometheus;
use gpuctl_view::program::health;
use gpuctl_view::program::health::{ClusterHealth, DoctorReport, HealthStatus, PrometheusHealth};
use gpuctl_view::{Format, document};

/// The default of `scheduler.interval`.
const USUAL_INTERVAL: Duration = Duration::from_secs(300);

/// What `examples/autoscaling` has: one text, so that both stay the same.
const ADAPTER_RULES: &str =
    include_str!("../../../../examples/autoscaling/prometheus-adapter.yaml");

pub(crate) async fn run(args: &Doctor, context: &Context) -> Result<ExitCode, Error> {
    if args.adapter_rules {
        context.terminal.print(ADAPTER_RULES)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.recording_rules {
        context.terminal.print(&recorded::rules())?;
        return Ok(ExitCode::SUCCESS);
    }
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    if let Some(file) = &args.bundle {
        return bundle::write(file, format, context).await;
    }
    let config = context.config()?;
    // What is wrong there is told, and is no reason to tell nothing else.
    let told = |error: anyhow::Error| context.terminal.warn(&error.to_string());
    let interval = config
        .duration("scheduler.interval")
        .map_err(told)
        .unwrap_or(USUAL_INTERVAL)
        .as_secs();
    let ai_enabled = config.switch("ai.enabled").map_err(told).unwrap_or(false);
    let (mut cluster, mut prometheus) = (ClusterHealth::default(), PrometheusHealth::default());
    let mut failed = None;
    let named = context.metrics()?.url.is_some();
    let mut found = Vec::new();
    match context.connect().await {
        Err(error) => failed = Some(error),
        Ok(connection) => {
            (cluster.server, cluster.context) = (
                Some(connection.server().to_owned()),
                context.access.context.clone(),
            );
            let begun = Instant::now();
            match connection.version().await {
                Err(failure) => failed = Some(failure.into()),
                Ok(version) => {
                    found.extend(store_checks::of_clock(
                        "the API server",
                        connection.server_time(),
                        context.now(),
                    ));
                    (cluster.connected, cluster.version) = (true, Some(version));
                    cluster.seconds = Some(milliseconds(begun));
                }
            }
            if cluster.connected {
                found.extend(checks::checks(context, &connection).await);
            }
            if !named {
                ask(
                    &mut prometheus,
                    metrics::find(
                        context,
                        &connection,
                        context.access.request_timeout,
                        StoreUse::Devices,
                    ),
                )
                .await;
            }
        }
    }
    if named {
        // One with an address of its own is there without the cluster too.
        ask(
            &mut prometheus,
            metrics::named(context, context.access.request_timeout),
        )
        .await;
    }
    cluster.error = failed.as_ref().map(ToString::to_string);
    let connected = prometheus.seconds.is_some();
    let status = match (cluster.connected, connected) {
        (false, _) => "unhealthy",
        (true, false) => "degraded",
        (true, true) => "healthy",
    };
    let health = HealthStatus {
        status,
        prometheus_connected: connected,
        last_analysis: None,
        analysis_timeout: false,
        ai_enabled,
        interval,
    };
    let report = DoctorReport {
        health,
        kubernetes: cluster,
        prometheus,
        checks: found,
    };
    context
        .terminal
        .print(&document(format, &report).unwrap_or_else(|| health::text(&report)))?;
    match failed {
        Some(error) if !format.is_document() => Ok(ExitCode::from(error.kind.exit_code())),
        Some(error) => Err(error),
        None => Ok(ExitCode::SUCCESS),
    }
}

async fn ask(
    told: &mut PrometheusHealth,
    found: impl Future<Output = Result<Prometheus<'_>, Error>>,
) {
    let begun = Instant::now();
    let asked = async {
        let found = found.await?;
        told.server = Some(found.server.clone());
        Ok::<_, Error>(found.now(&query::inventory()).await?)
    };
    match asked.await {
        Err(error) => told.error = Some(error.to_string()),
        Ok(known) => {
            told.seconds = Some(milliseconds(begun));
            told.has_gpus = Some(known.iter().any(|series| series.name() != "kube_node_info"));
        }
    }
}

/// Seconds to three decimals.
fn milliseconds(begun: Instant) -> f64 {
    (begun.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
}
