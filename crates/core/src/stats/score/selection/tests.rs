//! Tests which devices are selected and how they are scored.

use super::*;
use crate::model::GpuCount;
use crate::model::{Count, Holder};
use crate::model::{NodeDetails, NodeHealth, Point, Series};
use crate::stats::exporters::identity::ApiFacts;
use crate::stats::history::curves as history;
use crate::stats::history::curves::Lifetimes;

const RULES: Rules = Rules {
    start: UnixSeconds(0),
    end: UnixSeconds(600),
    step: 30,
    lookback: 60,
    weights: Weights {
        utilization: 0.5,
        memory_copy: 0.2,
        memory_used: 0.2,
        power: 0.1,
    },
    thresholds: Thresholds {
        idle: 10.0,
        low: 20.0,
        high: 70.0,
    },
};

fn history(pod: &str, index: u32, times: impl Iterator<Item = i64>) -> History {
    let labels = [
        ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
        ("Hostname", "n"),
        ("UUID", "GPU-x"),
        ("namespace", "t"),
        ("pod", pod),
    ];
    let mut labels: BTreeMap<String, String> = labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    labels.insert("gpu".to_owned(), index.to_string());
    let points = times
        .map(|second| Point {
            at: second * 1000,
            value: 3.0,
        })
        .collect();
    history::read(
        &[Series {
            labels: labels.into_iter().collect(),
            points,
        }],
        &ApiFacts::default(),
        &Lifetimes::new(),
    )
}

#[test]
fn window_is_covered_without_long_gaps() {
    let covers = |times: &[i64]| RULES.covers(&history("p", 0, times.iter().copied()).traces[0]);
    let every_30_seconds: Vec<i64> = (0..=600).step_by(30).collect();
    assert!(covers(&every_30_seconds));
    let without = |gap: std::ops::Range<i64>| {
        every_30_seconds
            .iter()
            .copied()
            .filter(|time| !gap.contains(time))
            .collect::<Vec<_>>()
    };
    assert!(covers(&without(300..330)), "one sample");
    assert!(!covers(&without(300..360)), "two samples in a row");
    assert!(!covers(&without(0..90)), "younger than the window");
    assert!(!covers(&without(540..601)), "nothing lately");
    assert!(!covers(&[0]), "nothing else");
}

#[test]
fn held_devices_without_samples_are_listed_as_unknown() {
    let holder = |pod: &str, gpus| Holder {
        namespace: "t".into(),
        pod: pod.into(),
        job: None,
        gpus,
        slices: BTreeMap::new(),
        shares_whole: false,
    };
    let mut host = NodeDetails::default();
    host.node.name = "n".to_owned();
    let mut host = crate::model::NodeUsage {
        details: host,
        health: NodeHealth::Active,
        reason: None,
        gpus: Count::usable_units(8, Some(3)),
        slices: BTreeMap::new(),
        listed_board_slices: BTreeMap::new(),
        types: BTreeMap::new(),
        cpu_used_milli: None,
        memory_used_bytes: None,
        holders: vec![holder("p", GpuCount(2)), holder("q", GpuCount(1))],
        devices: None,
    };
    let reading = Reading {
        node: "n".to_owned(),
        holders: vec![("t".to_owned(), "p".to_owned())],
        held: Some(true),
        ..Reading::default()
    };
    let readings = Readings::new(vec![reading], 1, 0, 0);
    let lost_readings = lost(&host, &readings, &history("p", 5, 0..3));
    let rows: Vec<_> = lost_readings
        .iter()
        .map(|(lost_reading, measured)| {
            (
                lost_reading.holders[0].1.as_str(),
                lost_reading.index,
                *measured,
            )
        })
        .collect();
    assert_eq!(rows, [("p", 5, true), ("q", 0, false)]);
    assert_eq!(lost_readings[0].0.uuid.as_deref(), Some("GPU-x"));
    // All held devices are measured, although no series names their pod.
    host.holders = vec![holder("q", GpuCount(1))];
    assert!(lost(&host, &readings, &History::default()).is_empty());
    let inventory = Inventory { hosts: vec![host] };
    let all = scored(
        &Readings::default(),
        &History::default(),
        &inventory,
        None,
        &RULES,
    );
    assert_eq!(
        (
            all.len(),
            all[0].score.band,
            all[0].id(),
            all[0].is_certain(20.0)
        ),
        (1, Band::Unknown, None, false)
    );
}
