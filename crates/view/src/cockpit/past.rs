//! Builds curves for the half hour before the cockpit started, from the history of the metrics
//! store.

use std::collections::BTreeMap;

use super::snapshot::{CockpitSnapshot, Curves, gpu_name};
use gpuctl_core::model::Point;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::history::curves::{History, Trace};

impl CockpitSnapshot {
    /// Returns the utilization of each GPU, and the mean over the GPUs of each node and job in
    /// percent. A GPU counts for a job from the job's start.
    pub fn curves(&self, history: &History) -> Curves {
        let mut sums: BTreeMap<String, BTreeMap<i64, (f64, f64)>> = BTreeMap::new();
        let mut add = |line: String, points: &[Point], since: i64| {
            let line = sums.entry(line).or_default();
            for point in points.iter().filter(|point| point.at >= since) {
                let (sum, number) = line.entry(point.at).or_default();
                (*sum, *number) = (*sum + point.value, *number + 1.0);
            }
        };
        let traces: BTreeMap<String, &Trace> = history
            .traces
            .iter()
            .map(|trace| (format!("{}/{}", trace.node, trace.id()), trace))
            .collect();
        for gpu in &self.gpus {
            let Some(trace) = traces.get(&gpu_name(gpu)) else {
                continue;
            };
            let points = trace.curve(Quantity::Utilization);
            add(gpu_name(gpu), points, 0);
            add(gpu.node.clone(), points, 0);
            let jobs = gpu
                .holders
                .iter()
                .filter_map(|(namespace, pod)| self.job_of(namespace, pod));
            let jobs: BTreeMap<String, i64> = jobs
                .map(|job| {
                    (
                        job.full_name(),
                        // Jobs without a start time get no curve from history.
                        job.started_at
                            .map_or(i64::MAX, jiff::Timestamp::as_millisecond),
                    )
                })
                .collect();
            jobs.into_iter()
                .for_each(|(name, since)| add(name, points, since));
        }
        let mut curves = Curves::default();
        for (line, points) in sums {
            let mean = |(time, (sum, number)): (i64, (f64, f64))| Point {
                at: time,
                value: sum / number,
            };
            curves.prepend(line, points.into_iter().map(mean).collect());
        }
        curves
    }
}
