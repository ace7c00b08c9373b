//! `gpuctl doctor`: checks the cluster, Prometheus, exporters and autoscaling metrics.

mod bundle;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::cli::program::doctor::Doctor;
use crate::context::Context;
use crate::observe::metrics::StoreUse;
use crate::observe::{checks, metrics};
use gpuctl_core::error::Error;
use gpuctl_core::model::contract::check::DoctorCheck;
use gpuctl_core::stats::exporters::{query, recorded};
use gpuctl_prometheus::Prometheus;
use gpuctl_view::program::health;
use gpuctl_view::program::health::{ClusterHealth, DoctorReport, HealthStatus, PrometheusHealth};
use gpuctl_view::{Format, document};

/// Default of `scheduler.interval`.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);

/// Included from `examples/autoscaling`, so that the program and the example are identical.
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
    // An invalid setting must not prevent the other checks.
    let warn_and_pass = |error: anyhow::Error| context.terminal.warn(&error.to_string());
    let interval = config
        .duration("scheduler.interval")
        .map_err(warn_and_pass)
        .unwrap_or(DEFAULT_INTERVAL)
        .as_secs();
    let ai_enabled = config
        .switch("ai.enabled")
        .map_err(warn_and_pass)
        .unwrap_or(false);
    let ClusterReport {
        cluster,
        mut prometheus,
        checks,
    } = check_cluster(context).await?;
    if context.metrics()?.url.is_some() {
        // A Prometheus at a configured address may respond even if the cluster does not.
        check_prometheus(
            &mut prometheus,
            metrics::configured(context, context.access.request_timeout),
        )
        .await;
    }
    let is_connected = prometheus.seconds.is_some();
    let health = HealthStatus {
        status: status(cluster.connected, is_connected),
        prometheus_connected: is_connected,
        last_analysis: None,
        analysis_timeout: false,
        ai_enabled,
        interval,
    };
    let report = DoctorReport {
        verdict: health::verdict(&cluster, &prometheus, &checks),
        health,
        kubernetes: cluster,
        prometheus,
        checks,
    };
    context
        .terminal
        .print(&document(format, &report).unwrap_or_else(|| health::text(&report)))?;
    // The report includes the error of an unreachable cluster.
    let code = report.verdict.result_code();
    Ok(code.map_or(ExitCode::SUCCESS, |code| ExitCode::from(code.exit_code())))
}

/// Summarizes whether the cluster and Prometheus respond.
fn status(cluster: bool, prometheus: bool) -> &'static str {
    match (cluster, prometheus) {
        (false, _) => "unhealthy",
        (true, false) => "degraded",
        (true, true) => "healthy",
    }
}

/// Results of the cluster checks.
#[derive(Default)]
struct ClusterReport {
    cluster: ClusterHealth,
    prometheus: PrometheusHealth,
    checks: Vec<DoctorCheck>,
}

/// Checks the cluster, and its Prometheus unless an address is configured.
async fn check_cluster(context: &Context) -> Result<ClusterReport, Error> {
    let mut report = ClusterReport::default();
    let has_address = context.metrics()?.url.is_some();
    match context.connect().await {
        Err(error) => report.cluster.error = Some(error.to_string()),
        Ok(connection) => {
            report.cluster.server = Some(connection.server().to_owned());
            report.cluster.context.clone_from(&context.access.context);
            let start = Instant::now();
            match connection.version().await {
                Err(failure) => report.cluster.error = Some(Error::from(failure).to_string()),
                Ok(version) => {
                    report
                        .checks
                        .extend(crate::observe::store_checks::check_clock(
                            "the API server",
                            connection.server_time(),
                            context.now(),
                        ));
                    report.cluster.connected = true;
                    report.cluster.version = Some(version);
                    report.cluster.seconds = Some(elapsed_seconds(start));
                    let results = checks::checks(context, &connection).await;
                    report.checks.extend(results);
                }
            }
            if !has_address {
                let prometheus = metrics::find(
                    context,
                    &connection,
                    context.access.request_timeout,
                    StoreUse::Devices,
                );
                check_prometheus(&mut report.prometheus, prometheus).await;
            }
        }
    }
    Ok(report)
}

async fn check_prometheus(
    health: &mut PrometheusHealth,
    prometheus: impl Future<Output = Result<Prometheus<'_>, Error>>,
) {
    let start = Instant::now();
    let query = async {
        let prometheus = prometheus.await?;
        health.server = Some(prometheus.server.clone());
        Ok::<_, Error>(prometheus.now(&query::inventory()).await?)
    };
    match query.await {
        Err(error) => health.error = Some(error.to_string()),
        Ok(series) => {
            health.seconds = Some(elapsed_seconds(start));
            health.has_gpus = Some(
                series
                    .iter()
                    .any(|series| series.name() != "kube_node_info"),
            );
        }
    }
}

/// Elapsed time in seconds, rounded to milliseconds.
fn elapsed_seconds(start: Instant) -> f64 {
    (start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
}
