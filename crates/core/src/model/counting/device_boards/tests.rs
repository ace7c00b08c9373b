//! Tests that each board counts once, however many devices represent it.

use super::*;
use crate::model::Taint;
use crate::model::counting::device_supply::AttributeValue;

fn device(name: &str, kind: &str) -> OfferedDevice {
    let text = |value: &str| AttributeValue::Text(value.to_owned());
    OfferedDevice {
        key: DeviceKey {
            driver: "gpu.nvidia.com".to_owned(),
            pool: "a".to_owned(),
            name: name.to_owned(),
        },
        node: "a".to_owned(),
        attributes: [("gpu.nvidia.com/type".to_owned(), text(kind))].into(),
        is_countable: true,
        is_pool_usable: true,
        ..OfferedDevice::default()
    }
}

fn uses(board: usize, slices: std::ops::Range<usize>) -> Vec<CounterUse> {
    vec![CounterUse {
        set: format!("gpu-{board}"),
        amounts: slices
            .map(|slice| (format!("memory-slice-{slice}"), 1000))
            .collect(),
    }]
}

/// Eight boards with seven memory slices each. Seven of them can be split into seven partitions of
/// one slice or two of three slices, and each of these seven has a twin for virtual machines.
fn partitionable() -> DeviceSupply {
    let mut supply = DeviceSupply::default();
    let mut sets = CounterSets::new();
    for board in 0..8 {
        let all = uses(board, 0..7).remove(0);
        sets.insert(all.set, all.amounts);
        supply.devices.push(OfferedDevice {
            counters: uses(board, 0..7),
            ..device(&format!("gpu-{board}"), "gpu")
        });
        if board == 7 {
            continue;
        }
        let mut partition = |profile: &str, slices: std::ops::Range<usize>| {
            let name = format!("gpu-{board}-{profile}-{}", slices.start);
            let mut part = device(&name, "mig");
            part.counters = uses(board, slices);
            let value = AttributeValue::Text(profile.to_owned());
            part.attributes
                .insert("gpu.nvidia.com/profile".to_owned(), value);
            supply.devices.push(part);
        };
        (0..7).for_each(|slice| partition("1g.10gb", slice..slice + 1));
        [0..3, 3..6]
            .into_iter()
            .for_each(|slices| partition("3g.40gb", slices));
        supply.devices.push(OfferedDevice {
            counters: uses(board, 0..7),
            ..device(&format!("gpu-vfio-{board}"), "vfio")
        });
    }
    let pool = ("gpu.nvidia.com".to_owned(), "a".to_owned());
    supply.counters.insert(pool, sets);
    supply
}

/// Marks devices as held, each by a pod of the same name.
fn hold(supply: &mut DeviceSupply, names: &[&str]) -> DeviceHolders {
    let mut holders = DeviceHolders::new();
    for device in &mut supply.devices {
        if names.contains(&device.key.name.as_str()) {
            device.is_held = true;
            let pod = ("ns".to_owned(), device.key.name.clone());
            holders.insert(device.key.clone(), vec![pod]);
        }
    }
    holders
}

/// Returns the numbers of boards, of boards that can be claimed, and of listed and held partitions
/// by profile.
fn counts(devices: &[Device]) -> (usize, usize, BTreeMap<&str, (usize, usize)>) {
    let boards = devices.iter().filter(|device| device.profile.is_none());
    let free = boards
        .clone()
        .filter(|device| device.held_by.is_none() && !device.is_blocked);
    let mut partitions = BTreeMap::new();
    for device in devices {
        if let Some(profile) = &device.profile {
            let (total, held) = partitions.entry(profile.as_str()).or_insert((0, 0));
            *total += 1;
            *held += usize::from(device.held_by.is_some());
        }
    }
    (boards.count(), free.count(), partitions)
}

#[test]
fn boards_partitions_and_twins_count_once() {
    let mut supply = partitionable();
    let holders = DeviceHolders::new();
    // 8 boards + 7 × (7 + 2) partitions + 7 twins are 78 devices, but eight boards.
    assert_eq!(supply.devices.len(), 78);
    let devices = listed_devices(&supply, Some(&holders));
    assert_eq!(counts(&devices), (8, 8, BTreeMap::new()));
    // A partition of one slice on board 0 leaves 7 boards. Of board 0, six slices are left: six
    // more partitions with one slice, or one with three slices (3..6, because slice 0 is taken).
    let holders = hold(&mut supply, &["gpu-0-1g.10gb-0"]);
    let devices = listed_devices(&supply, Some(&holders));
    let partitions = BTreeMap::from([("mig-1g.10gb", (7, 1)), ("mig-3g.40gb", (1, 0))]);
    assert_eq!(counts(&devices), (8, 7, partitions));
    // All of them are cut from boards that count already.
    let parts = devices.iter().filter(|device| device.profile.is_some());
    let of_boards = parts.filter(|device| device.is_of_listed_board).count();
    assert_eq!(of_boards, 7 + 1);
    // A board that a virtual machine holds is used, and its holder is the machine's pod.
    let mut supply = partitionable();
    let holders = hold(&mut supply, &["gpu-vfio-2", "gpu-7"]);
    let devices = listed_devices(&supply, Some(&holders));
    assert_eq!(counts(&devices), (8, 6, BTreeMap::new()));
    let pods: Vec<&str> = devices
        .iter()
        .filter_map(|device| Some(device.held_by.as_ref()?[0].1.as_str()))
        .collect();
    assert_eq!(pods, ["gpu-vfio-2", "gpu-7"]);
}

#[test]
fn twins_without_counters_are_found_by_their_address() {
    let addressed = |name: &str, kind: &str, bus: &str| {
        let mut device = device(name, kind);
        let value = AttributeValue::Text(bus.to_owned());
        let name = "resource.kubernetes.io/pciBusID".to_owned();
        device.attributes.insert(name, value);
        device
    };
    let supply = DeviceSupply {
        devices: vec![
            addressed("gpu-0", "gpu", "0000:01:00.0"),
            addressed("gpu-vfio-0", "vfio", "0000:01:00.0"),
            addressed("gpu-vfio-1", "vfio", "0000:02:00.0"),
        ],
        counters: BTreeMap::new(),
    };
    let devices = listed_devices(&supply, Some(&DeviceHolders::new()));
    assert_eq!(counts(&devices), (2, 2, BTreeMap::new()));
    let passthrough: Vec<bool> = devices.iter().map(|device| device.is_passthrough).collect();
    assert_eq!(passthrough, [false, true]);
}

#[test]
fn boards_of_one_counter_set_and_static_partitions_count_separately() {
    // Two boards use different counters of one set, and a third is only offered as partitions.
    let with_counter = |name: &str, counter: &str| OfferedDevice {
        counters: vec![CounterUse {
            set: "node".to_owned(),
            amounts: [(counter.to_owned(), 1000)].into(),
        }],
        ..device(name, "gpu")
    };
    let mut tainted = device("mig-2", "mig");
    tainted.taints.push(Taint {
        key: "gpu.nvidia.com/xid".to_owned(),
        value: None,
        effect: "NoSchedule".to_owned(),
    });
    let counters = [("gpu-0".to_owned(), 1000), ("gpu-1".to_owned(), 1000)];
    let supply = DeviceSupply {
        devices: vec![
            with_counter("gpu-0", "gpu-0"),
            with_counter("gpu-1", "gpu-1"),
            device("mig-1", "mig"),
            tainted,
        ],
        counters: [(
            ("gpu.nvidia.com".to_owned(), "a".to_owned()),
            [("node".to_owned(), counters.into())].into(),
        )]
        .into(),
    };
    let devices = listed_devices(&supply, Some(&DeviceHolders::new()));
    assert_eq!(counts(&devices), (2, 2, BTreeMap::from([("mig", (2, 0))])));
    assert!(devices.iter().all(|device| !device.is_of_listed_board));
    assert_eq!(devices[3].taint.as_deref(), Some("gpu.nvidia.com/xid"));
}
