//! Reads the metrics that a training logs or that its pods expose.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use gpuctl_cluster::{Connection, LogQuery};
use gpuctl_core::model::facts::work_pod::WorkPod;
use gpuctl_core::model::{GpuCount, Job, Point, Series, UnixSeconds, Workload};
use gpuctl_core::stats::logs::training;
use gpuctl_core::stats::logs::training::Measure;
use gpuctl_core::stats::logs::training::TrainingCurves;
use gpuctl_prometheus::Window;

pub(crate) fn log_sources(job: &Job) -> Vec<LogSource> {
    let source = |pod: &&gpuctl_core::model::Pod| LogSource {
        namespace: job.namespace.clone(),
        pod: pod.name.clone(),
        container: pod.own_container().to_owned(),
    };
    job.current_pods().iter().map(source).collect()
}

/// Selects the workload's pods with devices, or all scheduled pods if none has devices, as for a
/// launcher.
pub(crate) fn workload_log_sources(workload: &Workload) -> Vec<LogSource> {
    let mut pods: Vec<_> = workload
        .pods
        .iter()
        .filter(|pod| pod.node.is_some())
        .collect();
    if pods.iter().any(|pod| pod.gpus > GpuCount::ZERO) {
        pods.retain(|pod| pod.gpus > GpuCount::ZERO);
    }
    let source = |pod: &Rc<WorkPod>| LogSource {
        namespace: pod.namespace.to_string(),
        pod: pod.name.to_string(),
        container: pod.container.to_string(),
    };
    pods.into_iter().map(source).collect()
}

pub(crate) struct LogSource {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

/// Maximum number of lines to read per log.
const MAX_LINES: u32 = 20_000;

/// Reads training metrics from logs within a window. Trainers usually log on the first or the last
/// rank, so reads these two in order and uses the first with metrics. An unreadable log counts as
/// empty.
pub(crate) async fn read_logs(
    connection: &Connection,
    sources: &[LogSource],
    window: Window,
    now: UnixSeconds,
) -> TrainingCurves {
    let first_and_last = sources
        .first()
        .into_iter()
        .chain(sources.last().filter(|_| sources.len() > 1));
    for LogSource {
        namespace,
        pod,
        container,
    } in first_and_last
    {
        let since = Duration::from_secs(u64::try_from(now - window.start).unwrap_or(0).max(1));
        let query = LogQuery {
            container: container.clone(),
            tail: Some(MAX_LINES),
            since: Some(since),
            ..LogQuery::default()
        };
        let lines = connection
            .logs()
            .read(namespace, pod, &query)
            .await
            .unwrap_or_default()
            .lines;
        let mut curves = TrainingCurves::new();
        for line in lines {
            let Some(time) = line.at.map(jiff::Timestamp::as_millisecond) else {
                continue;
            };
            // The window has whole seconds, but log timestamps are more precise.
            if time < window.start.millis() || time > window.end.millis() + 999 {
                continue;
            }
            for (measure, value) in training::read(&line.text) {
                curves
                    .entry(measure)
                    .or_default()
                    .push(Point { at: time, value });
            }
        }
        if !curves.is_empty() {
            return curves;
        }
    }
    TrainingCurves::new()
}

/// Adds the metrics that the workload's pods expose, averaged over the pods. They replace the same
/// metrics from logs.
pub(crate) fn add_exposed(
    mut training_curves: TrainingCurves,
    exposed: &[Series],
) -> TrainingCurves {
    let mut by_measure: BTreeMap<Measure, Vec<&[Point]>> = BTreeMap::new();
    for series in exposed {
        if let Some(measure) = training::exposed(series.name()) {
            by_measure.entry(measure).or_default().push(&series.points);
        }
    }
    for (measure, curves) in by_measure {
        let finite: Vec<Vec<Point>> = curves
            .iter()
            .map(|curve| {
                curve
                    .iter()
                    .filter(|point| point.value.is_finite())
                    .copied()
                    .collect()
            })
            .collect();
        let points = gpuctl_core::stats::history::curves::mean(finite.iter().map(Vec::as_slice));
        if !points.is_empty() {
            training_curves.insert(measure, points);
        }
    }
    training_curves
}
