//! Tests how GPUs and their holders are counted.

use std::rc::Rc;

use super::*;
use crate::model::{GpuCount, Node, NodeHealth};

fn host(name: &str, labels: &[(&str, &str)], resources: &[(&str, &str)]) -> NodeDetails {
    let map = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let resources: BTreeMap<String, String> = map(resources);
    let node = Node {
        name: name.into(),
        labels: map(labels),
        allocatable: resources.clone(),
        schedulable: true,
        ..Node::default()
    };
    NodeDetails {
        node,
        capacity: resources.clone(),
        allocatable: resources,
        ..NodeDetails::default()
    }
}

fn pod(name: &str, node: &str, devices: &[(&str, u64)]) -> Consumer {
    let devices = Rc::new(
        devices
            .iter()
            .map(|(resource, count)| ((*resource).to_owned(), *count))
            .collect(),
    );
    Consumer {
        namespace: "ns".into(),
        name: name.into(),
        node: Some(node.into()),
        devices,
        asks_for_devices: true,
        ..Consumer::default()
    }
}

const A100: (&str, &str) = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");

#[test]
fn only_bound_pods_hold_devices() {
    let waiting = Consumer {
        node: None,
        ..pod("waiting", "a", &[("nvidia.com/gpu", 4)])
    };
    let pods = [
        pod("runs", "a", &[("nvidia.com/gpu", 3)]),
        waiting,
        pod("elsewhere", "b", &[("nvidia.com/gpu", 1)]),
    ];
    let inventory = Inventory::new(
        vec![host("a", &[A100], &[("nvidia.com/gpu", "8")])],
        Some(&pods.into_iter().collect()),
        &[],
    );
    let only = &inventory.hosts[0];
    assert_eq!(
        (only.gpus, only.gpus.free()),
        (
            Count {
                total: 8,
                used: Some(3)
            },
            Some(5)
        )
    );
    assert_eq!(
        (
            only.gpu_type().map(|kind| kind.to_string()).as_deref(),
            only.holders.len()
        ),
        (Some("a100-80g"), 1)
    );
}

#[test]
fn unreadable_usage_is_unknown_not_free() {
    let inventory = Inventory::new(
        vec![host("a", &[A100], &[("nvidia.com/gpu", "8")])],
        None,
        &[],
    );
    assert_eq!(
        (
            inventory.gpus().total,
            inventory.gpus().used,
            inventory.gpus().free()
        ),
        (8, None, None)
    );
    assert_eq!(inventory.hosts[0].cpu_used_milli, None);
}

#[test]
fn slices_and_shares_do_not_count_as_whole_devices() {
    let hosts = vec![
        host(
            "mixed",
            &[A100],
            &[
                ("nvidia.com/mig-1g.10gb", "7"),
                ("nvidia.com/gpu", "7"),
                ("cpu", "8"),
            ],
        ),
        host(
            "single",
            &[(
                "nvidia.com/gpu.product",
                "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
            )],
            &[("nvidia.com/gpu", "56")],
        ),
        host(
            "sliced",
            &[A100, ("nvidia.com/gpu.replicas", "4")],
            &[("nvidia.com/gpu", "32")],
        ),
        host("renamed", &[A100], &[("nvidia.com/gpu.shared", "16")]),
        host(
            "amd",
            &[("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM")],
            &[("amd.com/cpx_nps4", "64")],
        ),
    ];
    let pods = [
        pod("a", "mixed", &[("nvidia.com/mig-1g.10gb", 2)]),
        pod("b", "sliced", &[("nvidia.com/gpu", 3)]),
    ];
    let inventory = Inventory::new(hosts, Some(&pods.into_iter().collect()), &[]);
    let holder_of = |name: &str| {
        inventory
            .hosts
            .iter()
            .find(|host| host.name() == name)
            .unwrap()
    };
    assert_eq!(
        inventory.gpus(),
        Count {
            total: 7,
            used: Some(0)
        },
        "only the whole ones of the mixed node"
    );
    assert_eq!(
        holder_of("mixed").slices["mig-1g.10gb"],
        Count {
            total: 7,
            used: Some(2)
        }
    );
    assert_eq!(
        holder_of("single").slices["mig-1g.10gb"],
        Count {
            total: 56,
            used: Some(0)
        }
    );
    assert_eq!(
        holder_of("sliced").slices["gpu.shared"],
        Count {
            total: 32,
            used: Some(3)
        }
    );
    assert_eq!(holder_of("renamed").slices["gpu.shared"].total, 16);
    assert_eq!(holder_of("amd").slices["cpx_nps4"].total, 64);
}

#[test]
fn claimed_devices_count_like_resources() {
    let device = |profile: Option<&str>, held: bool| Device {
        node: "a".into(),
        profile: profile.map(ToOwned::to_owned),
        driver: "gpu.nvidia.com".into(),
        taint: None,
        product: Some("NVIDIA H100 80GB HBM3".into()),
        held_by: held.then(|| vec![("ns".to_owned(), "p".to_owned())]),
        claims_readable: true,
        ..Device::default()
    };
    let devices = [
        device(None, true),
        device(None, true),
        device(None, false),
        device(Some("mig-1g.10gb"), false),
    ];
    let claims = Consumers::from_iter([pod("p", "a", &[])]);
    let inventory = Inventory::new(vec![host("a", &[], &[])], Some(&claims), &devices);
    let only = &inventory.hosts[0];
    assert_eq!(
        (
            only.gpus,
            only.gpu_type().map(|kind| kind.to_string()).as_deref()
        ),
        (
            Count {
                total: 3,
                used: Some(2)
            },
            Some("h100-80g")
        )
    );
    assert_eq!(
        only.slices["mig-1g.10gb"],
        Count {
            total: 1,
            used: Some(0)
        }
    );
    assert_eq!((only.holders.len(), only.holders[0].gpus), (1, GpuCount(2)));
    // Tainted devices are not free, but held ones still count as used.
    let tainted = |free_device: &Device| Device {
        taint: Some("example.com/xid".into()),
        ..free_device.clone()
    };
    let broken = [
        tainted(&devices[0]),
        devices[1].clone(),
        tainted(&devices[2]),
    ];
    let inventory = Inventory::new(vec![host("a", &[], &[])], Some(&claims), &broken);
    let only = &inventory.hosts[0];
    assert_eq!(
        only.gpus,
        Count {
            total: 2,
            used: Some(2)
        }
    );
    assert_eq!(
        (only.health, only.reason.as_deref()),
        (
            NodeHealth::Faulty,
            Some("2 of 3 devices tainted (example.com/xid)")
        )
    );
    // The driver serves `nvidia.com/gpu` through claims, so counting the pod's request would count
    // the devices twice.
    let asks = [pod("p", "a", &[("nvidia.com/gpu", 2)])];
    let inventory = Inventory::new(
        vec![host("a", &[], &[])],
        Some(&asks.into_iter().collect()),
        &devices,
    );
    assert_eq!(
        (inventory.gpus().used, inventory.hosts[0].holders[0].gpus),
        (Some(2), GpuCount(2))
    );
    // A kubelet keeps the resource of a removed device plugin with the amount 0.
    let asks = [pod("p", "a", &[("nvidia.com/gpu", 2)])];
    let inventory = Inventory::new(
        vec![host("a", &[], &[("nvidia.com/gpu", "0")])],
        Some(&asks.into_iter().collect()),
        &devices,
    );
    assert_eq!(inventory.gpus().used, Some(2));
    // A board whose partitions are in use cannot be claimed as a whole.
    let blocked = Device {
        is_blocked: true,
        ..devices[2].clone()
    };
    let inventory = Inventory::new(vec![host("a", &[], &[])], Some(&claims), &[blocked]);
    assert_eq!(
        (inventory.gpus().total, inventory.gpus().used),
        (1, Some(1))
    );
    // Without permission to read claims, the number of used devices is unknown.
    let unknown: Vec<Device> = devices
        .iter()
        .map(|device| Device {
            held_by: None,
            claims_readable: false,
            ..device.clone()
        })
        .collect();
    let inventory = Inventory::new(
        vec![host("a", &[], &[])],
        Some(&Consumers::default()),
        &unknown,
    );
    assert_eq!((inventory.gpus().total, inventory.gpus().used), (3, None));
}
