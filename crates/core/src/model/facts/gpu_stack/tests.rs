//! Tests that the first broken component of the GPU software is named.

use std::collections::BTreeMap;

use super::*;
use crate::model::Node;

fn host(capacity: &str, allocatable: &str, labels: &[(&str, &str)]) -> NodeDetails {
    let amounts = |count: &str| {
        if count == "0" {
            BTreeMap::default()
        } else {
            [("nvidia.com/gpu".to_owned(), count.to_owned())].into()
        }
    };
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let node = Node {
        name: "n".into(),
        labels,
        allocatable: amounts(allocatable),
        ..Node::default()
    };
    NodeDetails {
        node,
        capacity: amounts(capacity),
        ..NodeDetails::default()
    }
}

fn pod(link: StackLink, node: &str, ready: bool) -> StackPod {
    StackPod {
        link: Some(link),
        node: node.into(),
        name: format!("{}-{node}", link.word()),
        ready,
        ..StackPod::default()
    }
}

#[test]
fn first_broken_link_is_reported() {
    use StackLink::{DevicePlugin, Driver, Exporter, FeatureDiscovery, Scrape, Toolkit};
    let typed = [("nvidia.com/gpu.product", "NVIDIA-A10")];
    let link = |host: &NodeDetails, pods: &[StackPod], metrics| {
        broken(host, DraOffer::default(), pods, metrics).map(|broken| broken.link)
    };
    let well = host("8", "8", &typed);
    assert_eq!(link(&well, &[], NodeMetrics::Fresh), None);
    assert_eq!(link(&well, &[], NodeMetrics::Unknown), None);
    assert_eq!(link(&well, &[], NodeMetrics::Missing), Some(Exporter));
    assert_eq!(
        link(
            &well,
            &[pod(Exporter, "n", true)],
            NodeMetrics::Stale(700.0)
        ),
        Some(Scrape)
    );
    assert_eq!(
        link(&well, &[pod(Exporter, "n", false)], NodeMetrics::Missing),
        Some(Exporter)
    );
    assert_eq!(
        link(
            &well,
            &[pod(DevicePlugin, "other", true)],
            NodeMetrics::Fresh
        ),
        Some(DevicePlugin)
    );
    assert_eq!(
        link(&host("8", "6", &typed), &[], NodeMetrics::Fresh),
        Some(DevicePlugin)
    );
    assert_eq!(
        link(&host("8", "0", &typed), &[], NodeMetrics::Fresh),
        Some(DevicePlugin)
    );
    assert_eq!(
        link(&host("8", "8", &[]), &[], NodeMetrics::Fresh),
        Some(FeatureDiscovery)
    );
    let empty = host("0", "0", &[("nvidia.com/gpu.present", "true")]);
    let none = DraOffer::default();
    assert!(has_gpus(&empty, none) && !has_gpus(&host("0", "0", &[]), none));
    assert_eq!(link(&empty, &[], NodeMetrics::Fresh), Some(DevicePlugin));
    assert_eq!(
        link(
            &empty,
            &[pod(Driver, "n", false), pod(Toolkit, "n", false)],
            NodeMetrics::Fresh
        ),
        Some(Driver)
    );
    assert_eq!(
        link(
            &empty,
            &[pod(Driver, "n", true), pod(Toolkit, "n", false)],
            NodeMetrics::Fresh
        ),
        Some(Toolkit)
    );
}

/// GPU Operator 26.7 runs the device plugin on some nodes and the DRA driver on others.
#[test]
fn nodes_with_a_dra_driver_need_no_device_plugin() {
    use StackLink::{DevicePlugin, DraDriver, Exporter};
    let pods = [
        pod(DevicePlugin, "other", true),
        pod(DraDriver, "n", true),
        pod(Exporter, "n", true),
    ];
    let link = |host: &NodeDetails, devices: u64, pods: &[StackPod]| {
        let claimable = DraOffer {
            devices,
            has_product: true,
        };
        broken(host, claimable, pods, NodeMetrics::Fresh).map(|broken| broken.link)
    };
    let present = host("0", "0", &[("nvidia.com/gpu.present", "true")]);
    assert_eq!(link(&present, 8, &pods), None);
    // A device plugin that was removed a minute ago leaves its devices in the capacity.
    assert_eq!(link(&host("8", "0", &[]), 8, &pods), None);
    assert_eq!(link(&present, 0, &pods), Some(DraDriver));
    let failing = [pod(DevicePlugin, "other", true), pod(DraDriver, "n", false)];
    assert_eq!(link(&present, 8, &failing), Some(DraDriver));
    // The driver runs on other nodes only, but this node has its label.
    let labels = [("nvidia.com/gpu.present", "true"), (DRA_DEPLOYED, "true")];
    let elsewhere = [pod(DraDriver, "other", true)];
    assert_eq!(
        link(&host("0", "0", &labels), 0, &elsewhere),
        Some(DraDriver)
    );
    // A node with a device plugin needs no DRA driver.
    let plain = host("8", "8", &[("nvidia.com/gpu.product", "NVIDIA-A10")]);
    let mixed = [pod(DevicePlugin, "n", true), pod(DraDriver, "other", true)];
    assert_eq!(link(&plain, 0, &mixed), None);
}

#[test]
fn series_without_a_node_are_not_blamed_on_a_node_whose_exporter_is_down() {
    use StackLink::{Exporter, Scrape};
    let host = host("8", "8", &[("nvidia.com/gpu.product", "NVIDIA-A10")]);
    let explained = |pods: &[StackPod]| {
        let metrics = NodeMetrics::Unmatched("Hostname=\"elsewhere\"".to_owned());
        let broken = broken(&host, DraOffer::default(), pods, metrics).unwrap();
        (broken.link, broken.message)
    };
    // Its exporter is not ready, or runs on other nodes only.
    for pods in [[pod(Exporter, "n", false)], [pod(Exporter, "other", true)]] {
        let (link, message) = explained(&pods);
        assert_eq!(link, Exporter, "{message}");
        assert!(!message.contains("elsewhere"), "{message}");
    }
    // Its exporter is ready, or may run outside of pods.
    for pods in [&[pod(Exporter, "n", true)][..], &[]] {
        let (link, message) = explained(pods);
        assert_eq!(link, Scrape, "{message}");
        let possible = "series with Hostname=\"elsewhere\" match no node and may be from";
        assert!(message.contains(possible), "{message}");
    }
}
