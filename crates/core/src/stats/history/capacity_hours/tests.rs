//! Tests that capacity = allocated + idle + unseen, over whole windows and groups.

use super::*;
use crate::model::values::series::{Point, Series};
use crate::stats::exporters::kube_state::node_state::NodeStateQuery;
use crate::stats::exporters::parts::NodeParts;
use crate::stats::history::allocations::AllocationSeries;
use crate::stats::history::node_history::NodeStateSeries;
use crate::stats::history::slots::TimeSpan;
use crate::stats::history::top_owner::LiveOwners;
use crate::stats::history::usage::{NodeNames, Usage};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60;

/// A series with one value in each of these minutes.
fn series(labels: &[(&str, &str)], minutes: impl Iterator<Item = i64>, value: f64) -> Series {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let points = minutes.map(|minute| Point {
        at: minute * MINUTE,
        value,
    });
    Series {
        labels,
        points: points.collect(),
    }
}

fn node(name: &str, minutes: impl Iterator<Item = i64>, gpus: f64) -> Series {
    let labels = [("node", name), ("resource", "nvidia_com_gpu")];
    series(&labels, minutes, gpus)
}

fn pod(name: &str, node: &str, minutes: impl Iterator<Item = i64>, gpus: f64) -> Series {
    let labels = [
        ("__name__", "kube_pod_container_resource_requests"),
        ("namespace", "ml"),
        ("pod", name),
        ("uid", name),
        ("container", "c"),
        ("node", node),
        ("resource", "nvidia_com_gpu"),
    ];
    series(&labels, minutes, gpus)
}

/// The sums of a window, in GPU-hours.
#[derive(Default)]
struct Totals {
    account: GpuHours,
    groups: BTreeMap<GroupValues, CapacityHours>,
}

impl Totals {
    /// Sums hours of nodes and pods. Each node is a group.
    fn new(nodes: &[Series], pods: &[Series], hours: i64, states: &NodeStateSeries) -> Self {
        let (mut tracker, mut account) = (CapacityTracker::default(), GpuHours::default());
        for hour in 0..hours {
            // The queries read beyond an hour if it begins or ends with a gap.
            let answers = AllocationSeries {
                requests: pods.to_vec(),
                ..AllocationSeries::default()
            };
            let begin = hour * HOUR * MINUTE;
            let span = TimeSpan {
                start: begin,
                end: begin + HOUR * MINUTE,
            };
            let parts = NodeParts::default();
            let (aliases, live) = (BTreeMap::new(), LiveOwners::new());
            let ledger = AllocationHistory::new(&answers, nodes, span, &parts, &aliases, &live);
            let usage = Usage::new(Vec::new(), &ledger, &NodeNames::default(), &[]);
            account.add(GpuHours::new(&ledger, &usage, |_| true));
            let history = NodeHistory::new(nodes, states, &ledger, &parts);
            tracker.add(&ledger, &history, |node| vec![Some(node.to_owned())]);
        }
        Self {
            account,
            groups: tracker.finish(),
        }
    }

    fn total(&self) -> CapacityHours {
        let mut total = CapacityHours::default();
        self.groups.values().for_each(|hours| total.add(hours));
        total
    }

    /// Capacity, allocated, idle and unseen hours.
    fn numbers(&self) -> [f64; 4] {
        let total = self.total();
        let numbers = [
            total.capacity(&self.account),
            allocated(&self.account),
            total.idle(),
            total.unseen(),
        ];
        numbers.map(|number| (number.unwrap() * 1e6).round() / 1e6)
    }
}

fn totals(nodes: &[Series], pods: &[Series], hours: i64) -> Totals {
    Totals::new(nodes, pods, hours, &NodeStateSeries::default())
}

#[test]
fn nodes_count_for_the_time_in_which_they_existed() {
    // Node a has 8 GPUs for an hour. Node b, with 4 GPUs, was added after half an hour.
    let nodes = [node("a", 0..60, 8.0), node("b", 30..60, 4.0)];
    // A pod held 6 GPUs of node a for half an hour: 3 GPU-hours.
    let pods = [pod("p", "a", 0..30, 6.0)];
    // Capacity 8 + 4 / 2 = 10, and 10 - 3 = 7 are idle.
    assert_eq!(totals(&nodes, &pods, 1).numbers(), [10.0, 3.0, 7.0, 0.0]);
}

#[test]
fn a_gap_between_two_samples_is_unseen_and_not_idle() {
    // kube-state-metrics was down from minute 50 to minute 70, which is in two hours.
    let nodes = [
        node("a", (0..50).chain(70..120), 8.0),
        // This node was deleted during the gap, so when it went is unknown.
        node("b", 0..50, 4.0),
    ];
    // Capacity of a: 16 in two hours, with 8 / 3 unseen. Capacity of b: 4 * 50 / 60.
    let unseen = 8.0 / 3.0;
    let idle = 16.0 - unseen + 4.0 * 50.0 / 60.0;
    let numbers = [idle + unseen, 0.0, idle, unseen];
    let expected = numbers.map(|number: f64| (number * 1e6).round() / 1e6);
    assert_eq!(totals(&nodes, &[], 2).numbers(), expected);
}

#[test]
fn gaps_of_whole_hours_are_unseen_and_the_ends_of_the_window_are_not() {
    // Samples in minutes 30 to 60 and 180 to 210, of a window of five hours.
    let nodes = [node("a", (30..60).chain(180..210), 8.0)];
    // Idle: 2 * 0.5 hours * 8. Unseen: two hours * 8. Before and after, the node may not exist.
    assert_eq!(totals(&nodes, &[], 5).numbers(), [24.0, 0.0, 8.0, 16.0]);
}

#[test]
fn a_pod_that_holds_more_than_the_capacity_adds_to_it() {
    // The node reports 7 GPUs after one broke, and the pod still holds 8.
    let nodes = [node("a", 0..60, 7.0)];
    let pods = [pod("p", "a", 0..60, 8.0)];
    assert_eq!(totals(&nodes, &pods, 1).numbers(), [8.0, 8.0, 0.0, 0.0]);
}

#[test]
fn cordoned_and_lost_gpus_are_part_of_the_idle_ones() {
    let nodes = [
        node("cordoned", 0..60, 8.0),
        node("silent", 0..60, 4.0),
        node("good", 0..60, 2.0),
    ];
    let pods = [pod("p", "cordoned", 0..60, 2.0)];
    let ready = |name: &'static str, minutes: std::ops::Range<i64>, value: f64| {
        let labels = [("node", name), ("condition", "Ready"), ("status", "true")];
        series(&labels, minutes, value)
    };
    let plain = |name: &'static str, minutes: std::ops::Range<i64>, value: f64| {
        series(&[("node", name)], minutes, value)
    };
    let states = NodeStateSeries {
        worst: ["cordoned", "silent", "good"]
            .into_iter()
            .flat_map(|name| {
                let last = || 59..60;
                [
                    plain(name, last(), f64::from(u8::from(name == "cordoned"))),
                    ready(name, last(), f64::from(u8::from(name != "silent"))),
                    node(name, last(), if name == "cordoned" { 7.0 } else { 8.0 }),
                ]
            })
            .collect(),
        over_time: vec![
            (
                NodeStateQuery::Cordoned,
                // Cordoned after half an hour.
                vec![
                    plain("cordoned", 0..30, 0.0),
                    plain("cordoned", 30..60, 1.0),
                ],
            ),
            (NodeStateQuery::Ready, vec![ready("silent", 0..60, 0.0)]),
            // One of the eight GPUs is broken.
            (
                NodeStateQuery::Allocatable,
                vec![node("cordoned", 0..60, 7.0)],
            ),
        ],
    };
    let totals = Totals::new(&nodes, &pods, 1, &states);
    // Idle: 8 - 2 on `cordoned`, 4 on `silent`, 2 on `good`.
    assert_eq!(totals.numbers(), [14.0, 2.0, 12.0, 0.0]);
    let total = totals.total();
    let rounded = |hours: &StateHours| -> BTreeMap<String, f64> {
        let hours = hours.by_node.iter();
        hours
            .map(|(node, hours)| (node.clone(), (hours * 1e6).round() / 1e6))
            .collect()
    };
    // Lost: 1 broken GPU and 4 of the silent node. Cordoned: the other 5 for half an hour.
    let lost = [("cordoned".to_owned(), 1.0), ("silent".to_owned(), 4.0)];
    assert_eq!(rounded(&total.lost), lost.into());
    let cordoned = [("cordoned".to_owned(), 2.5)];
    assert_eq!(rounded(&total.cordoned), cordoned.into());
    assert!(total.lost.sum().is_some() && total.cordoned.sum().is_some());
}

#[test]
fn states_that_nobody_reports_are_unknown() {
    let total = totals(&[node("a", 0..60, 8.0)], &[], 1).total();
    assert_eq!((total.cordoned.sum(), total.lost.sum()), (None, None));
    assert!(total.idle().is_some_and(|idle| (idle - 8.0).abs() < 1e-9));
    // A cluster without idle GPUs needs no states.
    let pods = [pod("p", "a", 0..60, 8.0)];
    let total = totals(&[node("a", 0..60, 8.0)], &pods, 1).total();
    assert_eq!(
        (total.cordoned.sum(), total.lost.sum()),
        (Some(0.0), Some(0.0))
    );
}

#[test]
fn capacity_that_nobody_reports_is_unknown() {
    let held = totals(&[], &[pod("p", "a", 0..60, 8.0)], 1);
    let total = held.total();
    assert_eq!(total.capacity(&held.account), None);
    assert_eq!(
        total.unknown["a"],
        "kube-state-metrics reports no capacity of it"
    );
    // A pod that outlives its node for some minutes does not make the capacity unknown.
    let nodes = [node("a", 0..58, 8.0)];
    let pods = [pod("p", "a", 0..60, 8.0)];
    assert_eq!(totals(&nodes, &pods, 1).numbers(), [8.0, 8.0, 0.0, 0.0]);
}

#[test]
fn slices_count_by_their_fraction() {
    let slices = |resource: &'static str, count: f64| {
        series(&[("node", "a"), ("resource", resource)], 0..60, count)
    };
    let nodes = [
        slices("nvidia_com_gpu", 1.0),
        slices("nvidia_com_mig_1g_10gb", 7.0),
    ];
    // One GPU and one that is cut into seven slices.
    assert_eq!(totals(&nodes, &[], 1).numbers(), [2.0, 0.0, 2.0, 0.0]);
    let shared = [slices("nvidia_com_gpu_shared", 40.0)];
    let total = totals(&shared, &[], 1).total();
    assert_eq!(total.idle(), None);
    assert_eq!(
        total.unknown["a"],
        "the fraction of a GPU in gpu.shared is unknown"
    );
}

/// Numbers that look random, from a seed (a linear congruential generator).
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: i64) -> i64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.0 >> 33).unwrap() % limit
    }
}

#[test]
fn random_histories_add_up() {
    for seed in 0..200 {
        let mut noise = Noise(seed);
        let hours = 1 + noise.below(4);
        let minutes = hours * HOUR;
        // Two gaps of kube-state-metrics, long enough not to be lost scrapes, and so far apart that
        // their lengths are not scrape intervals.
        let half = minutes / 2;
        let gaps = [0, half].map(|start| {
            let begin = start + 6 + noise.below(half - 12);
            begin..begin + 3 + noise.below(start + half - begin - 3)
        });
        let is_seen = |minute: &i64| !gaps.iter().any(|gap| gap.contains(minute));
        let (mut nodes, mut pods) = (Vec::new(), Vec::new());
        let mut lives = Vec::new();
        for number in 0..=noise.below(5) {
            let name = format!("n{number}");
            // A sample next to an end of the window also covers that end, so keep away from it. The
            // first node always exists, so that something is scraped outside of gaps.
            let begin = 3 + noise.below(minutes - 16);
            let life = begin..begin + 10 + noise.below(minutes - begin - 12);
            let life = if number == 0 { 0..minutes } else { life };
            let begin = life.start;
            let gpus = 1 + noise.below(8);
            nodes.push(node(&name, life.clone().filter(is_seen), gpus as f64));
            let end = begin + noise.below(life.end - begin);
            let held = noise.below(gpus + 1) as f64;
            let pod_name = format!("p{number}");
            pods.push(pod(&pod_name, &name, (begin..end).filter(is_seen), held));
            lives.push((life, gpus as f64));
        }
        nodes.retain(|series| !series.points.is_empty());
        pods.retain(|series| !series.points.is_empty());
        // A minute has data if any node existed in it. A minute without data counts for a node that
        // existed at both ends of the gap.
        let has_data =
            |minute: i64| is_seen(&minute) && lives.iter().any(|(life, _)| life.contains(&minute));
        let mut expected = 0.0;
        for (life, gpus) in &lives {
            for minute in 0..minutes {
                let before = (0..=minute).rev().find(|at| has_data(*at));
                let after = (minute..minutes).find(|at| has_data(*at));
                let ends = before.zip(after);
                let exists = ends.is_some_and(|(a, b)| life.contains(&a) && life.contains(&b));
                expected += f64::from(u8::from(exists)) * gpus / 60.0;
            }
        }
        let totals = totals(&nodes, &pods, hours);
        let [capacity, allocated, idle, unseen] = totals.numbers();
        assert!(
            (capacity - expected).abs() < 1e-4,
            "{seed}: {capacity} {expected}"
        );
        let sum = allocated + idle + unseen;
        assert!((capacity - sum).abs() < 1e-4, "{seed}: {capacity} {sum}");
        // A pod exists from its first to its last sample, also in gaps.
        let held = |pod: &Series| {
            let (first, last) = (pod.points.first()?, pod.points.last()?);
            Some(((last.at - first.at) / MINUTE + 1) as f64 * first.value / 60.0)
        };
        let held: f64 = pods.iter().filter_map(held).sum();
        assert!(
            (allocated - held).abs() < 1e-4,
            "{seed}: {allocated} {held}"
        );
    }
}
