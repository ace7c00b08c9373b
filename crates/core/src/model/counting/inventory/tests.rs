//! Tests how GPUs and their holders are counted.

use std::rc::Rc;

use super::*;
use crate::model::counting::consumer::MachineRequests;
use crate::model::{GpuCount, HostCondition, Node, NodeHealth, Reading, Readings, Taint};

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
        (Count::usable_units(8, Some(3)), Some(5))
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
        Count::usable_units(7, Some(0)),
        "only the whole ones of the mixed node"
    );
    assert_eq!(
        holder_of("mixed").slices["mig-1g.10gb"],
        Count::usable_units(7, Some(2))
    );
    assert_eq!(
        holder_of("single").slices["mig-1g.10gb"],
        Count::usable_units(56, Some(0))
    );
    assert_eq!(
        holder_of("sliced").slices["gpu.shared"],
        Count::usable_units(32, Some(3))
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
        (Count::usable_units(3, Some(2)), Some("h100-80g"))
    );
    assert_eq!(only.slices["mig-1g.10gb"], Count::usable_units(1, Some(0)));
    assert_eq!((only.holders.len(), only.holders[0].gpus), (1, GpuCount(2)));
    // Tainted devices are lost and not free, but held ones still count as used.
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
    // 3 devices. 2 are lost, and pods hold 2, including a lost one.
    assert_eq!(
        (
            only.gpus.total,
            only.gpus.lost,
            only.gpus.used,
            only.gpus.free()
        ),
        (3, 2, Some(2), Some(0))
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

/// A node of 8 GPUs whose kubelet offers `usable` of them.
fn partly_lost(name: &str, usable: &str) -> NodeDetails {
    let mut host = host(name, &[A100], &[("nvidia.com/gpu", "8")]);
    host.allocatable
        .insert("nvidia.com/gpu".to_owned(), usable.to_owned());
    host
}

#[test]
fn lost_and_cordoned_gpus_count_but_are_not_free() {
    let mut cordoned = host("cordoned", &[A100], &[("nvidia.com/gpu", "8")]);
    cordoned.node.schedulable = false;
    let mut silent = host("silent", &[A100], &[("nvidia.com/gpu", "8")]);
    // The node controller adds its taint only some seconds later.
    silent.conditions.push(HostCondition {
        kind: "Ready".to_owned(),
        status: "Unknown".to_owned(),
        ..HostCondition::default()
    });
    let mut reserved = host("reserved", &[A100], &[("nvidia.com/mig-1g.10gb", "7")]);
    reserved.node.taints.push(Taint {
        key: "example.com/reserved".to_owned(),
        value: None,
        effect: "NoSchedule".to_owned(),
    });
    let hosts = vec![
        host("open", &[A100], &[("nvidia.com/gpu", "8")]),
        cordoned,
        silent,
        partly_lost("lost", "7"),
        partly_lost("zero", "0"),
        reserved,
    ];
    let pods = [
        pod("a", "open", &[("nvidia.com/gpu", 3)]),
        pod("b", "cordoned", &[("nvidia.com/gpu", 2)]),
        pod("c", "zero", &[("nvidia.com/gpu", 8)]),
    ];
    let inventory = Inventory::new(hosts, Some(&pods.into_iter().collect()), &[]);
    let gpus = inventory.gpus();
    // 5 nodes of 8; 1 + 8 are lost; 8 + 8 are on the cordoned node and on the silent one.
    assert_eq!(
        (
            gpus.total,
            gpus.allocatable(),
            gpus.lost,
            gpus.cordoned,
            gpus.usable()
        ),
        (40, 31, 9, 16, 15)
    );
    // 8 - 3 on the open node and 7 on the one with a lost GPU. The pod on `zero` holds 8 lost ones.
    // Without the state of their nodes, 8 - 2 and 8 more would be free.
    assert_eq!(
        (gpus.used, gpus.free(), gpus.blocked()),
        (Some(13), Some(12), Some(14))
    );
    let named = |name: &str| {
        let mut hosts = inventory.hosts.iter();
        hosts.find(|host| host.name() == name).unwrap()
    };
    // A node keeps its type when all of its GPUs are lost.
    assert!(named("zero").has_gpus());
    assert_eq!(
        named("zero")
            .gpu_type()
            .map(|kind| kind.to_string())
            .as_deref(),
        Some("a100-80g")
    );
    assert!(!named("reserved").accepts_pods());
    assert_eq!(named("reserved").slices["mig-1g.10gb"].free(), Some(0));
}

/// About five minutes after a device plugin ends, the kubelet reports 0 of 0 devices.
#[test]
fn node_keeps_its_gpus_after_the_device_plugin_ended() {
    let count = ("nvidia.com/gpu.count", "8");
    let replicas = ("nvidia.com/gpu.replicas", "4");
    let zero = ("nvidia.com/gpu", "0");
    let hosts = vec![
        host("dead", &[A100, count], &[zero]),
        host("dead-shares", &[A100, count, replicas], &[zero]),
        host("open", &[A100, count], &[("nvidia.com/gpu", "8")]),
    ];
    let inventory = Inventory::new(hosts, Some(&Consumers::default()), &[]);
    let gpus = inventory.gpus();
    // 8 on `dead`, all lost, and 8 on `open`. The 8 boards of `dead-shares` are 32 lost shares.
    assert_eq!((gpus.total, gpus.lost, gpus.usable()), (16, 8, 8));
    let dead = &inventory.hosts[0];
    assert!(dead.has_gpus());
    assert_eq!(
        (dead.health, dead.reason.as_deref()),
        (NodeHealth::Faulty, Some("0 of 8 nvidia.com/gpu usable"))
    );
    let shares = inventory.hosts[1].slices["gpu.shared"];
    assert_eq!(
        (shares.total, shares.lost, shares.free()),
        (32, 32, Some(0))
    );
}

#[test]
fn a_reservation_holds_a_whole_gpu_that_its_pods_share() {
    // The pod of the scheduler requests the GPU, and the pods of its group use it.
    let in_group = |name: &str, namespace: &str, devices: &[(&str, u64)]| Consumer {
        namespace: namespace.into(),
        gpu_groups: vec!["group-1".into()],
        ..pod(name, "a", devices)
    };
    let pods = [
        in_group(
            "gpu-reservation-a",
            "kai-resource-reservation",
            &[("nvidia.com/gpu", 1)],
        ),
        in_group("x", "ns", &[]),
        in_group("y", "ns", &[]),
    ];
    let consumers = Consumers::from_iter(pods);
    let hosts = vec![host("a", &[A100], &[("nvidia.com/gpu", "8")])];
    let inventory = Inventory::new(hosts, Some(&consumers), &[]);
    let node = &inventory.hosts[0];
    assert_eq!((node.gpus.used, node.gpus.free()), (Some(1), Some(7)));
    let holders: Vec<(&str, u64, bool)> = node
        .holders
        .iter()
        .map(|holder| (&*holder.pod, holder.gpus.0, holder.shares_whole))
        .collect();
    assert_eq!(holders, [("x", 0, true), ("y", 0, true)]);
}

#[test]
fn pods_of_a_reservation_or_claim_on_one_device_do_not_make_shares_of_all() {
    // One of the 8 GPUs has no series. Two pods are on the first one.
    let reading = |index| Reading {
        node: "a".to_owned(),
        index,
        holders: match index {
            0 => ["x", "y"]
                .map(|pod| ("ns".to_owned(), pod.to_owned()))
                .to_vec(),
            _ => Vec::new(),
        },
        ..Reading::default()
    };
    let measured = |consumers: Vec<Consumer>, may_be_claimed| {
        let node = NodeDetails {
            may_be_claimed,
            ..host("a", &[A100], &[("nvidia.com/gpu", "8")])
        };
        let consumers = Consumers::from_iter(consumers);
        let mut inventory = Inventory::new(vec![node], Some(&consumers), &[]);
        inventory.measure(&Readings::new((0..7).map(reading).collect(), 7, 0, 0));
        let node = &inventory.hosts[0];
        (node.gpus.total, node.slices.contains_key("gpu.shared"))
    };
    let in_group = |name: &str, namespace: &str, devices: &[(&str, u64)]| Consumer {
        namespace: namespace.into(),
        gpu_groups: vec!["group-1".into()],
        ..pod(name, "a", devices)
    };
    let reserved = vec![
        in_group(
            "gpu-reservation-a",
            "kai-resource-reservation",
            &[("nvidia.com/gpu", 1)],
        ),
        in_group("x", "ns", &[]),
        in_group("y", "ns", &[]),
    ];
    assert_eq!(measured(reserved, false), (8, false));
    let gpu = |name| pod(name, "a", &[("nvidia.com/gpu", 1)]);
    assert_eq!(measured(vec![gpu("x"), gpu("y")], true), (8, false));
    // Two pods with a unit each are on the same device.
    assert_eq!(measured(vec![gpu("x"), gpu("y")], false), (0, true));
}

#[test]
fn free_units_need_cpu_and_memory_for_one_container_on_their_node() {
    let nodes = |cpu: &str, memory: &str| {
        let resources = [("nvidia.com/gpu", "8"), ("cpu", cpu), ("memory", memory)];
        vec![host("a", &[A100], &resources)]
    };
    let holder = Consumer {
        requests: MachineRequests {
            cpu_milli: 7000,
            memory_bytes: 4 << 30,
        },
        ..pod("holder", "a", &[("nvidia.com/gpu", 2)])
    };
    let consumers = Consumers::from_iter([holder]);
    // (free, stranded) of the 6 GPUs that the pod does not hold. A container with any number of them
    // needs 100m and 256Mi.
    let units = |cpu: &str, memory: &str| {
        let gpus = Inventory::new(nodes(cpu, memory), Some(&consumers), &[]).gpus();
        (gpus.free(), gpus.stranded())
    };
    // 57 CPUs and 252Gi remain.
    assert_eq!(units("64", "256Gi"), (Some(6), Some(0)));
    // 100m and 99m CPU remain.
    assert_eq!(units("7100m", "256Gi"), (Some(6), Some(0)));
    assert_eq!(units("7099m", "256Gi"), (Some(0), Some(6)));
    // 256Mi and 255Mi remain.
    assert_eq!(units("64", "4352Mi"), (Some(6), Some(0)));
    assert_eq!(units("64", "4351Mi"), (Some(0), Some(6)));
}
