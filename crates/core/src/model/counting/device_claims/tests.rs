//! Tests how claims are compared with the devices that nodes offer.

use super::*;
use crate::model::Taint;
use crate::model::counting::device_demand::{DeviceConstraint, DeviceToleration};
use crate::model::counting::device_supply::{AttributeValue, CounterUse, DeviceKey, OfferedDevice};

fn device(node: &str, kind: &str, is_held: bool, taint: Option<&str>) -> OfferedDevice {
    let taint = taint.map(|key| Taint {
        key: key.to_owned(),
        value: None,
        effect: "NoSchedule".to_owned(),
    });
    OfferedDevice {
        key: DeviceKey {
            driver: "gpu.nvidia.com".to_owned(),
            pool: node.to_owned(),
            name: kind.to_owned(),
        },
        node: node.to_owned(),
        attributes: BTreeMap::from([(
            "gpu.nvidia.com/type".to_owned(),
            AttributeValue::Text(kind.to_owned()),
        )]),
        taints: taint.into_iter().collect(),
        is_held,
        is_countable: true,
        is_pool_usable: true,
        ..OfferedDevice::default()
    }
}

fn supply(devices: &[OfferedDevice]) -> DeviceSupply {
    DeviceSupply {
        devices: devices.to_vec(),
        counters: BTreeMap::new(),
    }
}

fn demand(selector: &str) -> DeviceDemand {
    DeviceDemand {
        class: "gpu.nvidia.com".to_owned(),
        count: 2,
        selectors: vec![selector.to_owned()],
        ..DeviceDemand::default()
    }
}

fn request(name: &str, alternatives: &[DeviceDemand]) -> RequestDemand {
    RequestDemand {
        name: name.to_owned(),
        alternatives: alternatives.to_vec(),
    }
}

fn pod(requests: &[RequestDemand]) -> PodDevices {
    PodDevices {
        claims: vec![ClaimDemand {
            requests: requests.to_vec(),
            constraints: Vec::new(),
        }],
        extended: BTreeMap::new(),
    }
}

fn compared(pod: &PodDevices, supply: &DeviceSupply) -> DeviceClaims {
    DeviceClaims::compared(pod, supply, |_, _| false)
}

/// Compares a single demand.
fn alone(demand: DeviceDemand, devices: &[OfferedDevice]) -> DeviceClaims {
    compared(&pod(&[request("gpu", &[demand])]), &supply(devices))
}

/// Returns the free and all units of the first resource on node `a`.
fn on_a(claims: &DeviceClaims) -> (u64, u64) {
    let DeviceClaims::Compared(compared) = claims else {
        panic!("{claims:?}")
    };
    let capacity = compared[0].capacities.get("a").cloned().unwrap_or_default();
    (capacity.free, capacity.all)
}

const WHOLE: &str =
    "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == \"gpu\"";
const MIG: &str = "device.attributes['gpu.nvidia.com'].type == 'mig'";

#[test]
fn counts_exclude_held_tainted_and_unmatched_devices() {
    let devices = [
        device("a", "gpu", false, None),
        device("a", "gpu", true, None),
        device("a", "gpu", false, Some("example.com/broken")),
        device("a", "mig", false, None),
        device("b", "gpu", false, None),
    ];
    let claims = alone(demand(WHOLE), &devices);
    let on_a = ClassCapacity {
        free: 1,
        tainted: 1,
        taint: Some("example.com/broken".to_owned()),
        all: 3,
    };
    assert_eq!(claims.on_node("gpu.nvidia.com", "a"), Some(on_a));
    assert_eq!(
        claims.on_node("gpu.nvidia.com", "c"),
        Some(ClassCapacity::default())
    );
    let toleration = DeviceToleration {
        key: "example.com/broken".to_owned(),
        ..DeviceToleration::default()
    };
    let tolerant = DeviceDemand {
        tolerations: vec![toleration],
        ..demand(WHOLE)
    };
    let claims = alone(tolerant, &devices);
    assert_eq!(claims.on_node("gpu.nvidia.com", "a").unwrap().free, 2);
}

#[test]
fn selectors_that_fail_and_shared_devices_are_not_evaluated() {
    let not_evaluated = DeviceClaims::NotEvaluated(
        "devices of class gpu.nvidia.com (CEL expressions, or shared devices)".to_owned(),
    );
    let devices = [device("a", "gpu", false, None)];
    let missing = demand("device.attributes['gpu.nvidia.com'].productName == 'H100'");
    assert_eq!(alone(missing, &devices), not_evaluated);
    let shared = [OfferedDevice {
        is_countable: false,
        ..devices[0].clone()
    }];
    assert_eq!(alone(demand(WHOLE), &shared), not_evaluated);
    // The scheduler does not use a pool that the driver has published only in part.
    let partial = [
        OfferedDevice {
            is_pool_usable: false,
            ..devices[0].clone()
        },
        devices[0].clone(),
    ];
    assert_eq!(on_a(&alone(demand(WHOLE), &partial)), (1, 2));
    // A shared device of another kind does not matter.
    let other = demand("device.driver == 'nic.example.com'");
    let DeviceClaims::Compared(compared) = alone(other, &shared) else {
        panic!("it is compared")
    };
    assert!(compared[0].capacities.is_empty());
}

#[test]
fn claims_become_amounts_of_nodes_and_requests() {
    let devices = [
        device("a", "gpu", false, None),
        device("a", "gpu", true, None),
    ];
    let claims = alone(demand(WHOLE), &devices);
    let (mut requests, mut nodes) = (
        Amounts::new(),
        [Node {
            name: "a".to_owned(),
            ..Node::default()
        }],
    );
    let mut cluster = ClusterCapacity {
        free: BTreeMap::from([("a".to_owned(), Amounts::new())]),
        ..ClusterCapacity::default()
    };
    claims.add_to(&mut requests, &mut nodes, Some(&mut cluster));
    let resource = "deviceclass.resource.kubernetes.io/gpu.nvidia.com".to_owned();
    assert_eq!(requests, Amounts::from([(resource.clone(), 2000)]));
    assert_eq!(cluster.free["a"], Amounts::from([(resource.clone(), 1000)]));
    assert_eq!(nodes[0].most(), Amounts::from([(resource, 2000)]));
    assert_eq!(claims.claimed_per_pod(), 2);
}

/// A board of seven slices as a whole, and as partitions of the sizes in `parts`.
fn board(parts: &[std::ops::Range<usize>], held: &[usize]) -> DeviceSupply {
    let uses = |slices: std::ops::Range<usize>| CounterUse {
        set: "board".to_owned(),
        amounts: slices.map(|slice| (slice.to_string(), 1000)).collect(),
    };
    let mut devices = vec![OfferedDevice {
        counters: vec![uses(0..7)],
        ..device("a", "gpu", false, None)
    }];
    devices.extend(
        parts
            .iter()
            .enumerate()
            .map(|(part, slices)| OfferedDevice {
                counters: vec![uses(slices.clone())],
                ..device("a", "mig", held.contains(&part), None)
            }),
    );
    let pool = ("gpu.nvidia.com".to_owned(), "a".to_owned());
    DeviceSupply {
        devices,
        counters: [(pool, [("board".to_owned(), uses(0..7).amounts)].into())].into(),
    }
}

#[test]
fn a_board_and_its_partitions_exclude_each_other() {
    let ones: Vec<std::ops::Range<usize>> = (0..7).map(|slice| slice..slice + 1).collect();
    let single = |count: u64, selector: &str| {
        pod(&[request(
            "gpu",
            &[DeviceDemand {
                count,
                ..demand(selector)
            }],
        )])
    };
    let on = |pod: &PodDevices, supply: &DeviceSupply| on_a(&compared(pod, supply));
    // Nothing is in use: one board, or seven partitions.
    assert_eq!(on(&single(1, WHOLE), &board(&ones, &[])), (1, 1));
    assert_eq!(on(&single(1, MIG), &board(&ones, &[])), (7, 7));
    // One of the partitions is in use.
    assert_eq!(on(&single(1, WHOLE), &board(&ones, &[2])), (0, 1));
    assert_eq!(on(&single(1, MIG), &board(&ones, &[2])), (6, 7));
    // The scheduler takes devices in their order: first 0..4, then 4..7 is the only one left. Two
    // of these for each pod: 0..4 and 4..7 for one pod, nothing for the next.
    let mixed = [0..4, 0..2, 2..4, 4..7];
    assert_eq!(on(&single(1, MIG), &board(&mixed, &[])), (2, 2));
    assert_eq!(on(&single(2, MIG), &board(&mixed, &[])), (2, 2));
    // Three devices exist only as 0..2, 2..4 and 4..7, although two is what single claims get.
    assert_eq!(on(&single(3, MIG), &board(&mixed, &[])), (3, 3));
    // A claim for the board and a partition is impossible.
    let both = pod(&[
        request(
            "board",
            &[DeviceDemand {
                count: 1,
                ..demand(WHOLE)
            }],
        ),
        request(
            "part",
            &[DeviceDemand {
                count: 1,
                ..demand(MIG)
            }],
        ),
    ]);
    assert_eq!(on(&both, &board(&ones, &[])), (0, 0));
}

#[test]
fn alternatives_all_devices_and_access_for_administration() {
    let gpu = |is_held| device("a", "gpu", is_held, None);
    let mig = |is_held| device("a", "mig", is_held, None);
    let one = |selector: &str| DeviceDemand {
        count: 1,
        ..demand(selector)
    };
    // Two GPUs, or else one partition: one pod gets the two GPUs, and three get the partitions.
    let first = pod(&[request("any", &[demand(WHOLE), one(MIG)])]);
    let devices = [
        gpu(false),
        gpu(false),
        gpu(true),
        mig(false),
        mig(false),
        mig(false),
    ];
    assert_eq!(on_a(&compared(&first, &supply(&devices))), (4, 4));
    // All devices: only while none is held, and for one pod.
    let all = pod(&[request(
        "all",
        &[DeviceDemand {
            all: true,
            ..one(WHOLE)
        }],
    )]);
    assert_eq!(
        on_a(&compared(&all, &supply(&[gpu(false), gpu(false)]))),
        (1, 1)
    );
    assert_eq!(
        on_a(&compared(&all, &supply(&[gpu(false), gpu(true)]))),
        (0, 1)
    );
    // Access for administration gets held devices, and any number of pods get it.
    let admin = pod(&[request(
        "all",
        &[DeviceDemand {
            all: true,
            is_admin: true,
            ..one(WHOLE)
        }],
    )]);
    let held = supply(&[gpu(true), gpu(true)]);
    assert_eq!(on_a(&compared(&admin, &held)), (MOST_PODS, MOST_PODS));
}

#[test]
fn constraints_compare_the_devices_of_a_claim() {
    let on_root = |root: &str| {
        let mut gpu = device("a", "gpu", false, None);
        let value = AttributeValue::Text(root.to_owned());
        let name = "resource.kubernetes.io/pcieRoot".to_owned();
        gpu.attributes.insert(name, value);
        gpu
    };
    // Two devices of one root for each pod: three of root 1 serve one pod, one of root 2 none.
    let devices = [on_root("1"), on_root("2"), on_root("1"), on_root("1")];
    let mut equal = pod(&[request("gpu", &[demand(WHOLE)])]);
    equal.claims[0].constraints.push(DeviceConstraint {
        requests: Vec::new(),
        attribute: "resource.kubernetes.io/pcieRoot".to_owned(),
        is_distinct: false,
    });
    // One pod needs two units. The third device and the one of root 2 remain.
    assert_eq!(on_a(&compared(&equal, &supply(&devices))), (3, 3));
    let mut distinct = equal.clone();
    distinct.claims[0].constraints[0].is_distinct = true;
    distinct.claims[0].requests = ["x", "y"]
        .map(|name| {
            request(
                name,
                &[DeviceDemand {
                    count: 1,
                    ..demand(WHOLE)
                }],
            )
        })
        .into();
    // Different roots: devices 1 and 2 for the first pod. The others have the same root.
    assert_eq!(on_a(&compared(&distinct, &supply(&devices))), (1, 1));
}

#[test]
fn extended_resources_are_served_where_no_device_plugin_offers_them() {
    let extended = PodDevices {
        claims: Vec::new(),
        extended: BTreeMap::from([("nvidia.com/gpu".to_owned(), demand(WHOLE))]),
    };
    let devices = [
        device("a", "gpu", false, None),
        device("a", "gpu", false, None),
        device("a", "gpu", true, None),
        device("b", "gpu", false, None),
    ];
    let claims = DeviceClaims::compared(&extended, &supply(&devices), |node, _| node == "b");
    let DeviceClaims::Compared(compared) = &claims else {
        panic!("{claims:?}")
    };
    assert_eq!(compared.len(), 1);
    assert_eq!(compared[0].resource, "nvidia.com/gpu");
    assert_eq!((compared[0].capacities.len(), on_a(&claims)), (1, (2, 3)));
    // The pod's request is already in its containers.
    assert_eq!((compared[0].count, claims.claimed_per_pod()), (2, 0));
    // With an explicit claim for one GPU as well, a pod needs three: none fits, although two are
    // free. When the node is empty, one fits.
    let both = PodDevices {
        claims: pod(&[request(
            "gpu",
            &[DeviceDemand {
                count: 1,
                ..demand(WHOLE)
            }],
        )])
        .claims,
        ..extended
    };
    let claims = DeviceClaims::compared(&both, &supply(&devices), |node, _| node == "b");
    let DeviceClaims::Compared(compared) = &claims else {
        panic!("{claims:?}")
    };
    let free = |resource: usize, node: &str| {
        let capacity = &compared[resource].capacities[node];
        (capacity.free, capacity.all)
    };
    assert_eq!((free(0, "a"), free(1, "a")), ((0, 1), (0, 2)));
    // On `b`, the device plugin serves the resource, and the claim gets the GPU.
    assert_eq!((free(0, "b"), compared[1].capacities.len()), ((1, 1), 1));
}
