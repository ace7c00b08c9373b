//! Reads what a training reports about itself: log lines, and metrics that its pods expose.

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

pub(crate) fn speakers(job: &Job) -> Vec<LogSource> {
    let speaker = |pod: &&gpuctl_core::model::Pod| LogSource {
        namespace: job.namespace.clone(),
        pod: pod.name.clone(),
        container: pod.own_container().to_owned(),
    };
    job.current_pods().iter().map(speaker).collect()
}

/// Selects the workload's pods with devices, or all its scheduled pods if none has devices, such as
/// a launcher.
pub(crate) fn speakers_of(workload: &Workload) -> Vec<LogSource> {
    let mut pods: Vec<_> = workload
        .pods
        .iter()
        .filter(|pod| pod.node.is_some())
        .collect();
    if pods.iter().any(|pod| pod.gpus > GpuCount::ZERO) {
        pods.retain(|pod| pod.gpus > GpuCount::ZERO);
    }
    let speaker = |pod: &Rc<WorkPod>| LogSource {
        namespace: pod.namespace.to_string(),
        pod: pod.name.to_string(),
        container: pod.container.to_string(),
    };
    pods.into_iter().map(speaker).collect()
}

pub(crate) struct LogSource {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

/// Maximum number of lines to read from one log.
const LINES: u32 = 20_000;

/// Reads training metrics from logs within a window. Trainers usually log on one rank, the first or
/// the last, so the first of these two with any metric is used. An unreadable log counts as empty.
pub(crate) async fn by_logs(
    connection: &Connection,
    speakers: &[LogSource],
    window: Window,
    now: UnixSeconds,
) -> TrainingCurves {
    let ends = speakers
        .first()
        .into_iter()
        .chain(speakers.last().filter(|_| speakers.len() > 1));
    for LogSource {
        namespace,
        pod,
        container,
    } in ends
    {
        let since = Duration::from_secs(u64::try_from(now - window.start).unwrap_or(0).max(1));
        let query = LogQuery {
            container: container.clone(),
            tail: Some(LINES),
            since: Some(since),
            ..LogQuery::default()
        };
        let lines = connection
            .logs()
            .read(namespace, pod, &query)
            .await
            .unwrap_or_default()
            .lines;
        let mut told = TrainingCurves::new();
        for line in lines {
            let Some(at) = line.at.map(jiff::Timestamp::as_millisecond) else {
                continue;
            };
            // The window has whole seconds, but log timestamps are more precise.
            if at < window.start.millis() || at > window.end.millis() + 999 {
                continue;
            }
            for (measure, value) in training::read(&line.text) {
                told.entry(measure).or_default().push(Point { at, value });
            }
        }
        if !told.is_empty() {
            return told;
        }
    }
    TrainingCurves::new()
}

/// Adds the metrics that a workload's pods expose, averaged over the pods. A measure from metrics
/// replaces the same measure from logs.
pub(crate) fn with_exposed(mut told: TrainingCurves, exposed: &[Series]) -> TrainingCurves {
    let mut found: BTreeMap<Measure, Vec<&[Point]>> = BTreeMap::new();
    for series in exposed {
        if let Some(measure) = training::exposed(series.name()) {
            found.entry(measure).or_default().push(&series.points);
        }
    }
    for (measure, curves) in found {
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
            told.insert(measure, points);
        }
    }
    told
}
