//! Tests which nodes need their states over time, and how slots without samples are read.

use super::*;
use crate::model::counting::node_usage::Device;
use crate::model::{Inventory, Node, NodeDetails};
use crate::stats::history::slots::TimeSpan;

fn series(labels: &[(&str, &str)], values: &[(i64, f64)]) -> Series {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let points = values.iter().map(|(minute, value)| Point {
        at: minute * 60_000,
        value: *value,
    });
    Series {
        labels,
        points: points.collect(),
    }
}

#[test]
fn only_nodes_with_a_bad_state_are_affected() {
    let gpus = |node: &'static str, count: f64| {
        let labels = [("node", node), ("resource", "nvidia_com_gpu")];
        series(&labels, &[(0, count)])
    };
    let ready = |node: &'static str, value: f64| {
        let labels = [("node", node), ("condition", "Ready"), ("status", "true")];
        series(&labels, &[(60, value)])
    };
    let capacity = ["good", "cordoned", "silent", "broken"].map(|node| gpus(node, 8.0));
    let worst = [
        series(&[("node", "good")], &[(60, 0.0)]),
        ready("good", 1.0),
        gpus("good", 8.0),
        series(&[("node", "cordoned")], &[(60, 1.0)]),
        ready("silent", 0.0),
        gpus("broken", 7.0),
    ];
    let affected = NodeStateSeries::affected(&worst, &capacity);
    let affected: Vec<&str> = affected.into_iter().collect();
    assert_eq!(affected, ["broken", "cordoned", "silent"]);
}

#[test]
fn a_lost_scrape_is_no_gap_and_an_absent_node_has_no_capacity() {
    let ledger = AllocationHistory {
        span: TimeSpan {
            start: 0,
            end: 600_000,
        },
        observed: vec![true; 10],
        ..AllocationHistory::from_allocations(0, 60_000, Vec::new())
    };
    // Minute 2 is a lost scrape, and samples before and after the window are no part of it. The node was deleted after minute 4 and added again at minute 8.
    let minutes = [-5, 0, 1, 3, 4, 8, 9, 12].map(|minute| (minute, 8.0));
    let capacity = [series(
        &[("node", "a"), ("resource", "nvidia_com_gpu")],
        &minutes,
    )];
    let states = NodeStateSeries::default();
    let history = NodeHistory::new(&capacity, &states, &ledger, &NodeParts::default());
    let (some, none) = (Some(8.0), None);
    assert_eq!(
        history.nodes["a"].capacity,
        [some, some, some, some, some, none, none, none, some, some]
    );
    let node = &history.nodes["a"];
    assert_eq!((node.before, node.after), (some, some));
    assert_eq!(node.cordoned, None);
}

#[test]
fn partitions_of_listed_boards_add_no_capacity() {
    let device = |profile: Option<&str>, is_of_listed_board: bool| Device {
        node: "a".to_owned(),
        driver: "gpu.nvidia.com".to_owned(),
        profile: profile.map(ToOwned::to_owned),
        is_of_listed_board,
        claims_readable: true,
        ..Device::default()
    };
    let capacity = |devices: &[Device]| {
        let node = Node {
            name: "a".to_owned(),
            ..Node::default()
        };
        let host = NodeDetails {
            node,
            ..NodeDetails::default()
        };
        let inventory = Inventory::new(vec![host], None, devices);
        let parts = NodeParts::from_nodes(inventory.hosts.iter());
        let ledger = AllocationHistory {
            span: TimeSpan {
                start: 0,
                end: 60_000,
            },
            observed: vec![true],
            ..AllocationHistory::from_allocations(0, 60_000, Vec::new())
        };
        let states = NodeStateSeries::default();
        let history = NodeHistory::new(&[], &states, &ledger, &parts);
        history.nodes["a"].capacity[0].unwrap()
    };
    // Eight boards. One of them is cut: one slice of 1/7 is held, so six more of them, or one of
    // 3/7, can be claimed. The boards are 8 GPUs, and the 7/7 + 3/7 are in the cut board.
    let mut devices = vec![device(None, false); 8];
    devices.extend(vec![device(Some("mig-1g.10gb"), true); 7]);
    devices.push(device(Some("mig-3g.40gb"), true));
    assert!((capacity(&devices) - 8.0).abs() < 1e-9);
    // A ninth board is offered only as seven static slices: 8 + 7 * 1/7.
    devices.extend(vec![device(Some("mig-1g.10gb"), false); 7]);
    assert!((capacity(&devices) - 9.0).abs() < 1e-9);
}
