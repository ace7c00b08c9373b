//! Generates the series of a cluster whose true history is known, as perfect or as torn scrapes.

use std::collections::BTreeMap;

use crate::model::facts::reading::PodKey;
use crate::model::values::series::{Labels, Point, Series};
use crate::stats::exporters::parts::NodeParts;
use crate::stats::history::allocations::{AllocationHistory, AllocationSeries};
use crate::stats::history::outage::NearestScrape;
use crate::stats::history::slots::TimeSpan;
use crate::stats::history::usage::{NodeNames, Usage};

pub(super) const SECOND: i64 = 1000;
pub(super) const HOUR: i64 = 3_600_000;

/// A small generator of random numbers (xorshift), so that a seed names a history.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, limit: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i64::try_from(self.0 >> 2).unwrap() % limit.max(1)
    }

    pub(super) fn chance(&mut self, percent: i64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(i64::try_from(of.len()).unwrap())).unwrap()]
    }
}

/// A pod with its true life in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct TruePod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) node: &'static str,
    pub(super) gpus: u64,
    pub(super) start: i64,
    pub(super) end: i64,
    /// How long the object exists in phase Succeeded after the end.
    pub(super) kept: i64,
    /// Number of its first device on the node.
    pub(super) first_device: u64,
}

impl TruePod {
    fn labels(&self) -> Vec<(&str, String)> {
        vec![
            ("namespace", self.namespace.clone()),
            ("pod", self.name.clone()),
            ("uid", format!("uid-{}", self.name)),
        ]
    }

    /// GPU-hours that it held in a span.
    pub(super) fn held(&self, span: TimeSpan) -> f64 {
        let time = self.end.min(span.end) - self.start.max(span.start);
        self.gpus as f64 * time.max(0) as f64 / HOUR as f64
    }
}

/// The times at which a target was scraped, each with the `instance` label at that time.
pub(super) type TargetScrapes = Vec<(i64, &'static str)>;

/// Series of kube-state-metrics and of exporters, without limits of time.
#[derive(Default)]
pub(super) struct GeneratedSeries {
    requests: Vec<Series>,
    phases: Vec<Series>,
    capacity: Vec<Series>,
    pub(super) devices: Vec<Series>,
}

fn series(name: &str, labels: &[(&str, String)], points: Vec<Point>) -> Option<Series> {
    let labels: Labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .chain([("__name__".to_owned(), name.to_owned())])
        .collect();
    (!points.is_empty()).then_some(Series { labels, points })
}

/// Groups samples by instance, in order of time.
fn sampled(
    scrapes: &TargetScrapes,
    value: impl Fn(i64) -> Option<f64>,
) -> BTreeMap<&'static str, Vec<Point>> {
    let mut points: BTreeMap<&'static str, Vec<Point>> = BTreeMap::new();
    for (at, instance) in scrapes {
        let point = value(*at).map(|value| Point { at: *at, value });
        points.entry(instance).or_default().extend(point);
    }
    points
}

impl GeneratedSeries {
    /// Adds what kube-state-metrics reported at these times.
    pub(super) fn add_state(&mut self, pods: &[TruePod], nodes: &[&str], scrapes: &TargetScrapes) {
        for node in nodes {
            for (instance, points) in sampled(scrapes, |_| Some(8.0)) {
                let labels = [
                    ("node", (*node).to_owned()),
                    ("resource", "nvidia_com_gpu".to_owned()),
                    ("instance", instance.to_owned()),
                ];
                let name = "kube_node_status_capacity";
                self.capacity.extend(series(name, &labels, points));
            }
        }
        for pod in pods {
            let exists = |at: i64| (pod.start..pod.end + pod.kept).contains(&at);
            let gpus = |at: i64| exists(at).then_some(pod.gpus as f64);
            for (instance, points) in sampled(scrapes, gpus) {
                let mut labels = pod.labels();
                labels.push(("instance", instance.to_owned()));
                labels.push(("container", "main".to_owned()));
                labels.push(("node", pod.node.to_owned()));
                labels.push(("resource", "nvidia_com_gpu".to_owned()));
                let name = "kube_pod_container_resource_requests";
                self.requests.extend(series(name, &labels, points));
            }
            for (phase, is_first) in [("Running", true), ("Succeeded", false)] {
                let value = |at: i64| {
                    let is_it = (at < pod.end) == is_first;
                    exists(at).then_some(f64::from(u8::from(is_it)))
                };
                for (instance, points) in sampled(scrapes, value) {
                    let mut labels = pod.labels();
                    labels.push(("instance", instance.to_owned()));
                    labels.push(("phase", phase.to_owned()));
                    self.phases
                        .extend(series("kube_pod_status_phase", &labels, points));
                }
            }
        }
    }

    /// Adds what an exporter reported at these times about the devices of the pods. The value is
    /// the utilization, and the power in watts is twice as high.
    pub(super) fn add_devices(&mut self, pods: &[TruePod], scrapes: &TargetScrapes, value: f64) {
        for pod in pods {
            for device in pod.first_device..pod.first_device + pod.gpus {
                let held = |at: i64| (pod.start..pod.end).contains(&at);
                for (name, factor) in [
                    ("DCGM_FI_DEV_GPU_UTIL", 1.0),
                    ("DCGM_FI_DEV_POWER_USAGE", 2.0),
                ] {
                    let value = |at: i64| held(at).then_some(value * factor);
                    for (instance, points) in sampled(scrapes, value) {
                        let labels = [
                            ("Hostname", pod.node.to_owned()),
                            ("instance", instance.to_owned()),
                            ("gpu", device.to_string()),
                            ("UUID", format!("GPU-{}-{device}", pod.node)),
                            ("namespace", pod.namespace.clone()),
                            ("pod", pod.name.clone()),
                        ];
                        self.devices.extend(series(name, &labels, points));
                    }
                }
            }
        }
    }

    /// Reads a span as `observe::past_facts` does: with the time beyond it up to the nearest
    /// scrape, if kube-state-metrics was not scraped at an edge. Nothing exists from `now` on.
    pub(super) fn read(&self, span: TimeSpan, now: i64) -> (AllocationHistory, Usage) {
        let (requests, capacity) = (cut(&self.requests, span), cut(&self.capacity, span));
        let (before, after) = AllocationHistory::edge_gaps(&requests, &capacity, span);
        let has_samples = |from: i64, to: i64| {
            let points = self.capacity.iter().flat_map(|series| &series.points);
            points
                .into_iter()
                .any(|point| (from..to).contains(&point.at))
        };
        let nearest = |limit: i64, has_scrape: &dyn Fn(i64) -> bool| {
            let mut search = NearestScrape::new(limit / SECOND);
            while let Some(distance) = search.probe() {
                search.note(distance, Some(has_scrape(distance * SECOND)));
            }
            search.distance().unwrap_or(0) * SECOND
        };
        let mut wide = span;
        if before {
            let earlier = |length: i64| has_samples(span.start - length, span.start);
            wide.start -= nearest(span.start, &earlier);
        }
        if after {
            let later = |length: i64| has_samples(span.end, span.end + length);
            wide.end += nearest(now - span.end, &later);
        }
        let phases = cut(&self.phases, wide);
        let ever = phases
            .iter()
            .filter(|series| series.points.iter().any(|point| point.value > 0.0));
        let answers = AllocationSeries {
            requests: cut(&self.requests, wide),
            phases_ever: ever.cloned().collect(),
            phases: phases.clone(),
            ..AllocationSeries::default()
        };
        let history = AllocationHistory::new(
            &answers,
            &cut(&self.capacity, wide),
            span,
            &NodeParts::default(),
            &BTreeMap::new(),
            &BTreeMap::new(),
        );
        let devices = cut(&self.devices, span);
        let exporters: [(PodKey, String); 0] = [];
        let usage = Usage::new(devices, &history, &NodeNames::default(), &exporters);
        (history, usage)
    }
}

/// Returns the samples in a span.
fn cut(answer: &[Series], span: TimeSpan) -> Vec<Series> {
    let within = |series: &Series| {
        let from = series.points.partition_point(|point| point.at < span.start);
        let to = series.points.partition_point(|point| point.at < span.end);
        (from < to).then(|| Series {
            labels: series.labels.clone(),
            points: series.points[from..to].to_vec(),
        })
    };
    answer.iter().filter_map(within).collect()
}
