//! Reads live metrics: gauges and faults of each device, and the ages of stale samples.
//! `metrics.rs` finds the Prometheus to query.

use std::collections::BTreeSet;

use futures::future::{join, try_join, try_join_all, try_join3};

use gpuctl_core::error::Error;
use gpuctl_core::model::{Figures, GpuCount, GpuType, Inventory, Job, Readings, Series};
use gpuctl_core::stats::exporters::devices;
use gpuctl_core::stats::exporters::devices::ExporterReading;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::exported_metrics;
use gpuctl_core::stats::exporters::exported_metrics::ExportedMetrics;
use gpuctl_core::stats::exporters::faults;
use gpuctl_core::stats::exporters::identity::{ApiFacts, IdentityReader};
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::exporters::query::Pods;
use gpuctl_core::stats::exporters::xid_history;
use gpuctl_prometheus::Prometheus;

/// Live metrics of nodes and pools.
pub(crate) const NODE_QUANTITIES: [Quantity; 8] = [
    Quantity::Utilization,
    Quantity::MemoryUsed,
    Quantity::MemoryFree,
    Quantity::MemoryTotal,
    Quantity::Xid,
    Quantity::RowRemapFailure,
    Quantity::Health,
    Quantity::Share,
];

/// Live metrics of individual devices.
pub(crate) const DEVICE_QUANTITIES: [Quantity; 11] = [
    Quantity::Utilization,
    Quantity::MemoryUsed,
    Quantity::MemoryFree,
    Quantity::MemoryTotal,
    Quantity::Power,
    Quantity::PowerLimit,
    Quantity::Temperature,
    Quantity::Xid,
    Quantity::RowRemapFailure,
    Quantity::Health,
    Quantity::Share,
];

/// Live metrics of jobs.
pub(crate) const JOB_QUANTITIES: [Quantity; 6] = [
    Quantity::Utilization,
    Quantity::MemoryUsed,
    Quantity::MemoryFree,
    Quantity::MemoryTotal,
    Quantity::Power,
    Quantity::Share,
];

/// Time in seconds for which an error makes a device faulty, as in [`faults::query`].
const FAULT_WINDOW_SECONDS: i64 = 3600;

/// Live metrics that an overview queries for every device.
const OVERVIEW_QUANTITIES: [Quantity; 2] = [Quantity::Utilization, Quantity::Share];

/// Reads the current values of `quantities`, for the given pods or for all devices.
pub(crate) async fn read(
    prometheus: &Prometheus<'_>,
    quantities: &[Quantity],
    pods: Option<&Pods>,
) -> Result<ExporterReading, Error> {
    let gauges = query::gauges(quantities, pods);
    let extra = async {
        let exported = read_exported_metrics(prometheus).await?;
        let faults = async {
            // Faults cost extra queries, so read them only for lists that include XID errors.
            match quantities.contains(&Quantity::Xid) {
                true => device_faults(prometheus, &exported).await,
                false => Ok(Vec::new()),
            }
        };
        try_join(faults, stale_ages(prometheus, &exported)).await
    };
    let (values, extra) = join(prometheus.now(&gauges), extra).await;
    let (mut values, (faults, stale_ages)) = (values?, extra?);
    values.extend(faults);
    Ok(ExporterReading { values, stale_ages })
}

/// Reads only the metrics that sums over nodes need. Queries further gauges only for devices
/// without utilization.
pub(crate) async fn read_overview(prometheus: &Prometheus<'_>) -> Result<ExporterReading, Error> {
    let gauges = query::gauges(&OVERVIEW_QUANTITIES, None);
    let extra = async {
        let exported = read_exported_metrics(prometheus).await?;
        let without_utilization = query::without_utilization(&exported.utilization);
        let without_utilization = async { Ok(prometheus.now(&without_utilization).await?) };
        try_join3(
            without_utilization,
            device_faults(prometheus, &exported),
            stale_ages(prometheus, &exported),
        )
        .await
    };
    let (values, extra) = join(prometheus.now(&gauges), extra).await;
    let (mut values, (without_utilization, faults, stale_ages)) = (values?, extra?);
    values.extend(without_utilization.into_iter().chain(faults));
    Ok(ExporterReading { values, stale_ages })
}

async fn read_exported_metrics(prometheus: &Prometheus<'_>) -> Result<ExportedMetrics, Error> {
    Ok(ExportedMetrics::from_answer(
        &prometheus.now(&exported_metrics::query()).await?,
    ))
}

/// Queries device faults. The first query returns only the highest error number per device, so a
/// second query looks for fatal errors with lower numbers.
async fn device_faults(
    prometheus: &Prometheus<'_>,
    exported: &ExportedMetrics,
) -> Result<Vec<Series>, Error> {
    let mut faults = prometheus
        .now(&faults::query(exported.records_errors))
        .await?;
    if let Some(hidden_query) = faults::hidden(&faults).filter(|_| !exported.records_errors) {
        faults.extend(prometheus.now(&hidden_query).await?);
    }
    faults.retain(faults::counts);
    without_old_errors(prometheus, faults).await
}

/// Removes errors that devices already reported an hour ago. Exporters repeat the last error until
/// the driver is loaded again.
async fn without_old_errors(
    prometheus: &Prometheus<'_>,
    faults: Vec<Series>,
) -> Result<Vec<Series>, Error> {
    let errors = faults::errors(&faults);
    if errors.is_empty() {
        return Ok(faults);
    }
    let queries = xid_history::queries(&errors, 2 * FAULT_WINDOW_SECONDS);
    let reads = queries.iter().map(|query| prometheus.now(query));
    let samples: Vec<Series> = try_join_all(reads).await?.concat();
    let newest = samples
        .iter()
        .filter_map(Series::last)
        .map(|point| point.at)
        .max();
    let Some(end) = newest else {
        return Ok(faults);
    };
    let facts = ApiFacts::default();
    let reader = IdentityReader::new(&facts, &samples);
    let start = end - FAULT_WINDOW_SECONDS * 1000;
    let reports = xid_history::reports(&samples, &reader, start, end);
    let recent = |series| xid_history::recent_fault(series, &reader, &reports);
    Ok(faults.into_iter().filter_map(recent).collect())
}

async fn stale_ages(
    prometheus: &Prometheus<'_>,
    exported: &ExportedMetrics,
) -> Result<Vec<Series>, Error> {
    match exported.utilization.is_empty() {
        // The age of a sample is queried through the utilization metrics.
        true => Ok(Vec::new()),
        false => Ok(prometheus
            .now(&query::stale_ages(&exported.utilization))
            .await?),
    }
}

/// Builds readings for the devices of the jobs' pods from metrics alone, without reading the
/// cluster's inventory.
pub(crate) fn job_readings<'j>(
    reading: &ExporterReading,
    jobs: impl Iterator<Item = &'j Job>,
) -> Readings {
    let held_by = |job: &'j Job| {
        let pods = job
            .pods
            .iter()
            .filter(|pod| pod.holds() && pod.gpus > GpuCount::ZERO);
        pods.map(|pod| {
            (
                (job.namespace.clone(), pod.name.clone()),
                pod.node.clone().unwrap_or_default(),
            )
        })
    };
    devices::read(
        reading,
        &Inventory::default(),
        &ApiFacts::from_pods(jobs.flat_map(held_by)),
    )
}

/// Averages the metrics of the devices that a job holds.
pub(crate) fn figures_of(readings: &Readings, job: &Job) -> Figures {
    readings.figures_of_all(pods_of(job))
}

/// Returns the types of the devices that a job holds, according to the exporter. A job that names
/// no type gets any.
pub(crate) fn gpu_types_of(readings: &Readings, job: &Job) -> Option<String> {
    let devices = readings.held_by_pods(pods_of(job));
    let models = devices.iter().filter_map(|device| device.model.as_deref());
    let types: BTreeSet<String> = models
        .filter_map(GpuType::parse)
        .map(|gpu_type| gpu_type.to_string())
        .collect();
    Some(types.into_iter().collect::<Vec<_>>().join(",")).filter(|types| !types.is_empty())
}

/// Lists the pods of a job that hold devices, as (namespace, name).
fn pods_of(job: &Job) -> impl Iterator<Item = (&str, &str)> + Clone {
    let pods = job.pods.iter().filter(|pod| pod.holds());
    pods.map(|pod| (job.namespace.as_str(), pod.name.as_str()))
}

/// Averages the metrics of the devices that several jobs hold, counting each device once.
pub(crate) fn figures_of_all<'j>(
    readings: &Readings,
    jobs: impl Iterator<Item = &'j Job>,
) -> Figures {
    readings.figures_of_all(jobs.flat_map(pods_of))
}
