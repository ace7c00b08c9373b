//! Tests which nodes stand out by the failures of their jobs.

use super::*;
use crate::model::GpuCount;
use crate::stats::history::allocations::AllocationGaps;

#[test]
fn poisson_bounds_match_published_tables() {
    // Garwood's table for 95 %.
    for (count, low, high) in [
        (0, 0.0, 3.689),
        (1, 0.0253, 5.572),
        (5, 1.623, 11.668),
        (10, 4.795, 18.390),
        (100, 81.36, 121.63),
    ] {
        let bounds = poisson_bounds(count);
        assert!(
            (bounds.0 - low).abs() < 0.006 && (bounds.1 - high).abs() < 0.006,
            "{count}: {bounds:?}"
        );
    }
}

/// Builds a pod of a job that holds its devices in the given slots, out of 60 slots of one
/// minute.
fn pod(job: &str, name: &str, node: &str, held: std::ops::Range<usize>, phase: &str) -> Allocation {
    let held: Vec<bool> = (0..60).map(|slot| held.contains(&slot)).collect();
    Allocation {
        pod: ("n".to_owned(), name.to_owned()),
        node: node.to_owned(),
        top: TopOwner {
            namespace: "n".to_owned(),
            kind: "Job".to_owned(),
            name: job.to_owned(),
        },
        gpus: GpuCount(8),
        part: None,
        requested: held.clone(),
        running: held.clone(),
        held,
        phase: Some((59, phase.to_owned())),
        labels: None,
        annotations: None,
        gaps: AllocationGaps::default(),
    }
}

fn hour(number: i64, allocations: Vec<Allocation>) -> AllocationHistory {
    AllocationHistory::from_allocations(number * 3_600_000, 60_000, allocations)
}

#[test]
fn first_failure_is_blamed_once_per_job() {
    let mut ledger = BlameLedger::default();
    ledger.add(&hour(
        0,
        vec![
            // Rank 1 fails first, the others follow.
            pod("big", "big-1", "bad", 0..30, "Failed"),
            pod("big", "big-0", "good", 0..31, "Failed"),
            pod("big", "big-2", "other", 0..32, "Failed"),
            // Both pods fail in the same slot, so their order is unknown.
            pod("tie", "tie-0", "good", 40..50, "Failed"),
            pod("tie", "tie-1", "other", 40..50, "Failed"),
            // The pod failed before the first sample.
            pod("old", "old-0", "good", 0..0, "Failed"),
            pod("long", "long-0", "good", 50..60, "Running"),
        ],
    ));
    ledger.add(&hour(
        1,
        vec![
            // The next retry of the job, and a pod that remains from the first attempt.
            pod("big", "big-1", "bad", 0..0, "Failed"),
            pod("big", "big-1b", "bad", 0..10, "Failed"),
            // The pod failed between the two chunks.
            pod("long", "long-0", "good", 0..0, "Failed"),
        ],
    ));
    let nodes = ledger.nodes();
    let blame = |name: &str| nodes.iter().find(|node| node.node == name).unwrap();
    let bad = blame("bad");
    assert_eq!((bad.jobs, bad.failures, bad.followed), (1, 2, 0));
    assert!((bad.hours - 40.0 / 60.0).abs() < 1e-9);
    let good = blame("good");
    // The node was busy in 0..31 and 40..60 of the first hour.
    assert_eq!((good.jobs, good.failures, good.followed), (1, 1, 2));
    assert!((good.hours - 51.0 / 60.0).abs() < 1e-9, "{good:?}");
    assert_eq!((blame("other").jobs, blame("other").followed), (0, 2));
}

#[test]
fn node_stands_out_beyond_chance() {
    let mut ledger = BlameLedger::default();
    for number in 0..200 {
        let name = |node: &str| format!("{node}-{number}");
        let pod_on = |node: &str, failed: bool| {
            pod(
                &name(node),
                &name(node),
                node,
                0..60,
                if failed { "Failed" } else { "Succeeded" },
            )
        };
        // 12 failures in 200 hours on one node, and 2 failures in 200 hours on each other node.
        ledger.add(&hour(
            number,
            vec![
                pod_on("bad", number % 17 == 0),
                pod_on("a", number % 100 == 0),
                pod_on("b", number % 100 == 50),
            ],
        ));
    }
    let nodes = ledger.nodes();
    assert_eq!(
        (nodes[0].node.as_str(), nodes[0].jobs, nodes[0].stands_out),
        ("bad", 12, true)
    );
    let rate = nodes[0].rate.unwrap();
    // Garwood's bounds for 12 failures are 6.201 and 20.962. The node held GPUs for 200 hours.
    assert!(
        (rate.value - 60.0).abs() < 1e-9
            && (rate.low - 31.0).abs() < 0.01
            && (rate.high - 104.81).abs() < 0.01,
        "{rate:?}"
    );
    // The mean of all nodes is 16 failures in 600 hours: 26.7 per 1,000 hours.
    assert!(
        !nodes[1].stands_out && !nodes[2].stands_out,
        "two of 200 may be chance"
    );
}

#[test]
fn few_failures_and_few_hours_do_not_stand_out() {
    let mut ledger = BlameLedger::default();
    for number in 0..80 {
        let name = |node: &str| format!("{node}-{number}");
        let pod_on = |node: &str, minutes: usize, failed: bool| {
            let phase = if failed { "Failed" } else { "Succeeded" };
            pod(&name(node), &name(node), node, 0..minutes, phase)
        };
        ledger.add(&hour(
            number,
            vec![pod_on("a", 60, number < 2), pod_on("b", 60, false)],
        ));
    }
    ledger.add(&hour(80, vec![pod("new", "new", "new", 0..2, "Running")]));
    let nodes = ledger.nodes();
    let blame = |name: &str| nodes.iter().find(|node| node.node == name).unwrap();
    // 2 failures in 80 hours are 25 per 1,000 hours, from 3.0 to 90.3. The mean is 12.5.
    assert_eq!((blame("a").jobs, blame("a").stands_out), (2, false));
    let (low, high) = blame("a").interval().unwrap();
    assert!(
        (low - 3.03).abs() < 0.01 && (high - 90.3).abs() < 0.1,
        "{low} to {high}"
    );
    // Two minutes without a failure would give an interval up to 110,666.
    assert_eq!((blame("new").rate, blame("new").interval()), (None, None));
}

#[test]
fn wide_intervals_are_unknown() {
    let interval = |jobs: u64, hours: f64| {
        let blame = NodeBlame {
            node: "n".to_owned(),
            jobs,
            failures: jobs,
            followed: 0,
            hours,
            rate: Some(rate(jobs, hours)),
            stands_out: false,
        };
        blame.interval()
    };
    // 3.689 / 0.25 h and 3.689 / 23.9 h: up to 14,756 and 154 per 1,000 hours, from few hours.
    assert_eq!(interval(0, 0.25), None);
    assert_eq!(interval(0, 23.9), None);
    // 3.689 / 24 h.
    let (low, high) = interval(0, 24.0).unwrap();
    assert!(low == 0.0 && (high - 153.7).abs() < 0.1, "{low} to {high}");
    // 100 failures in 100 hours: up to 121.63 / 100 h, more than one per hour.
    assert_eq!(interval(100, 100.0), None);
}
