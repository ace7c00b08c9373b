//! Tests how devices are built from samples.

use super::*;
use crate::model::{Consumer, Consumers, Node, NodeDetails, Point};

fn series(name: &str, labels: &[(&str, &str)], value: f64) -> Series {
    let all = labels.iter().copied().chain([("__name__", name)]);
    let labels = all
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    Series {
        labels,
        points: vec![Point { at: 0, value }],
    }
}

/// Reads samples of a node with eight devices. The pod `train` holds two.
fn read_on_node(values: Vec<Series>) -> Readings {
    let resources: BTreeMap<String, String> =
        [("nvidia.com/gpu".to_owned(), "8".to_owned())].into();
    let node = Node {
        name: "n".into(),
        schedulable: true,
        ..Node::default()
    };
    let host = NodeDetails {
        node,
        capacity: resources.clone(),
        allocatable: resources,
        ..NodeDetails::default()
    };
    let pod = Consumer {
        namespace: "ns".into(),
        name: "train".into(),
        node: Some("n".into()),
        devices: std::rc::Rc::new([("nvidia.com/gpu".to_owned(), 2)].into()),
        asks_for_devices: true,
        ..Consumer::default()
    };
    let pods = Consumers::from_iter([pod]);
    let inventory = Inventory::new(vec![host], Some(&pods), &[]);
    let facts = ApiFacts::from_inventory(&inventory, Some(&pods));
    read(
        &ExporterReading {
            values,
            ..ExporterReading::default()
        },
        &inventory,
        &facts,
    )
}

const UTIL: &str = "DCGM_FI_DEV_GPU_UTIL";

#[test]
fn faults_of_exporters_mark_devices() {
    let labels = |gpu| [("gpu", gpu), ("Hostname", "n")];
    let readings = read_on_node(vec![
        series("DCGM_FI_DEV_XID_ERRORS", &labels("0"), 13.0),
        series("DCGM_FI_DEV_XID_ERRORS", &labels("1"), 79.0),
        series("DCGM_FI_DEV_ROW_REMAP_FAILURE", &labels("2"), 1.0),
        series("amd_gpu_health", &[("gpu_id", "3"), ("hostname", "n")], 0.0),
        series("gpu_health", &[("gpu_id", "4"), ("hostname", "n")], 1.0),
    ]);
    let faults: Vec<_> = readings
        .devices
        .iter()
        .map(|reading| reading.fault.as_deref())
        .collect();
    assert_eq!(
        faults,
        [
            None,
            Some("XID 79"),
            Some("row remapping failed"),
            Some("unhealthy"),
            None
        ]
    );
}

#[test]
fn partitioned_device_becomes_its_instances() {
    let whole = [("gpu", "0"), ("UUID", "GPU-a"), ("Hostname", "n")];
    let instance = [
        ("gpu", "0"),
        ("UUID", "GPU-a"),
        ("Hostname", "n"),
        ("GPU_I_PROFILE", "1g.10gb"),
        ("GPU_I_ID", "7"),
    ];
    let readings = read_on_node(vec![
        series("DCGM_FI_DEV_GPU_TEMP", &whole, 40.0),
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &instance, 0.25),
    ]);
    assert_eq!(readings.devices.len(), 1);
    assert_eq!(
        (
            readings.devices[0].utilization,
            readings.devices[0].id().to_string()
        ),
        (Some(Percent(25.0)), "gpu-0/1g.10gb-7".to_owned())
    );
}

/// Labels of an instance of the board with this number.
fn instance<'a>(gpu: &'a str, id: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("gpu", gpu),
        ("UUID", gpu),
        ("Hostname", "n"),
        ("GPU_I_PROFILE", "3g.40gb"),
        ("GPU_I_ID", id),
    ]
}

#[test]
fn zero_of_a_metric_for_whole_devices_is_unknown_for_an_instance() {
    let graphics = "DCGM_FI_PROF_GR_ENGINE_ACTIVE";
    let copy = "DCGM_FI_DEV_MEM_COPY_UTIL";
    let readings = read_on_node(vec![
        // NVIDIA/dcgm-exporter#216: zero, although the graphics engine is busy.
        series(UTIL, &instance("0", "1"), 0.0),
        series(graphics, &instance("0", "1"), 0.93),
        series(copy, &instance("0", "1"), 0.0),
        series(UTIL, &instance("0", "2"), 0.0),
        series(graphics, &instance("0", "2"), 0.55),
        // Without the profiling field, a zero proves nothing, but other values do.
        series(UTIL, &instance("1", "1"), 0.0),
        series(UTIL, &instance("1", "2"), 40.0),
        // The profiling field of an idle instance is zero too.
        series(graphics, &instance("2", "1"), 0.0),
        // A whole device is idle.
        series(UTIL, &[("gpu", "3"), ("UUID", "3"), ("Hostname", "n")], 0.0),
    ]);
    let values: Vec<_> = readings
        .devices
        .iter()
        .map(|reading| reading.utilization.map(|Percent(value)| value.round()))
        .collect();
    assert_eq!(
        values,
        [
            Some(93.0),
            Some(55.0),
            None,
            Some(40.0),
            Some(0.0),
            Some(0.0)
        ]
    );
    assert_eq!(readings.devices[0].memory_copy, None);
}

#[test]
fn power_of_instances_is_that_of_their_board() {
    let power = "DCGM_FI_DEV_POWER_USAGE";
    let mut values: Vec<Series> = ["1", "2", "3"]
        .map(|id| series(power, &instance("0", id), 350.0))
        .into();
    // For another board, only the series of the whole board has the power.
    values.push(series(
        power,
        &[("gpu", "1"), ("UUID", "1"), ("Hostname", "n")],
        120.0,
    ));
    values.push(series("DCGM_FI_DEV_FB_USED", &instance("1", "1"), 500.0));
    let readings = read_on_node(values);
    let watts: Vec<_> = readings
        .devices
        .iter()
        .map(|reading| (reading.power, reading.board_power))
        .collect();
    let board = |watts| (None, Some(Watts(watts)));
    assert_eq!(
        watts,
        [board(350.0), board(350.0), board(350.0), board(120.0)]
    );
    // 350 + 120
    let figures = crate::model::Figures::with_boards(readings.devices.iter());
    assert_eq!(figures.power_in_all, Some(Watts(470.0)));
}

#[test]
fn shared_device_has_one_value_and_all_holders() {
    let copy = |pod| {
        [
            ("gpu", "0"),
            ("UUID", "GPU-a"),
            ("Hostname", "n"),
            ("namespace", "ns"),
            ("pod", pod),
        ]
    };
    let unattributed = [("gpu", "0"), ("UUID", "GPU-a"), ("Hostname", "n")];
    let readings = read_on_node(vec![
        series(UTIL, &copy("train"), 30.0),
        series(UTIL, &unattributed, 70.0),
    ]);
    assert_eq!(
        (readings.devices.len(), readings.devices[0].utilization),
        (1, Some(Percent(70.0)))
    );
    assert_eq!(
        readings.devices[0].holders,
        [("ns".to_owned(), "train".to_owned())]
    );
}

#[test]
fn device_is_stale_if_all_its_series_are_stale() {
    let labels = |gpu, pod| {
        [
            ("gpu", gpu),
            ("Hostname", "n"),
            ("namespace", "ns"),
            ("pod", pod),
        ]
    };
    let values = vec![
        series(UTIL, &labels("0", "gone"), 80.0),
        series(UTIL, &labels("0", "train"), 30.0),
        series(UTIL, &labels("1", "train"), 90.0),
        series(UTIL, &labels("1", "train-too"), 20.0),
        series("DCGM_FI_DEV_FB_USED", &labels("1", "train"), 500.0),
        // A sample with an impossible value still counts towards the age of its series.
        series(UTIL, &labels("2", "train"), 2_147_483_632.0),
        series("DCGM_FI_DEV_FB_USED", &labels("2", "train"), 500.0),
    ];
    // The result of the query for stale samples contains no metric names.
    let age = |gpu, pod, seconds| Series {
        labels: labels(gpu, pod)
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        points: vec![Point {
            at: 0,
            value: seconds,
        }],
    };
    let stale_ages = vec![
        age("0", "gone", 70.0),
        age("1", "train", 95.0),
        age("1", "train-too", 61.0),
        age("2", "train", 99.0),
    ];
    let readings = read(
        &ExporterReading { values, stale_ages },
        &Inventory::default(),
        &ApiFacts::default(),
    );
    let ages: Vec<_> = readings
        .devices
        .iter()
        .map(|reading| {
            (
                reading.stale,
                reading.sample_age_seconds,
                reading.memory_used,
            )
        })
        .collect();
    assert_eq!(
        ages,
        [
            (false, None, None),
            (true, Some(61.0), None),
            (true, Some(99.0), None)
        ]
    );
    assert_eq!(readings.devices[1].utilization, None);
}

#[test]
fn series_with_only_uuids_join_numbered_devices() {
    let readings = read_on_node(vec![
        series(
            UTIL,
            &[("gpu", "5"), ("UUID", "GPU-a"), ("Hostname", "n")],
            50.0,
        ),
        series(
            "hami_host_gpu_utilization_ratio",
            &[("device_uuid", "GPU-a"), ("node", "n")],
            49.0,
        ),
        series(
            "hami_container_device_utilization_ratio",
            &[
                ("device_uuid", "GPU-a"),
                ("node", "n"),
                ("namespace", "ns"),
                ("pod", "train"),
                ("container", "main"),
            ],
            49.0,
        ),
    ]);
    assert_eq!(
        (
            readings.devices.len(),
            readings.devices[0].index,
            readings.devices[0].utilization
        ),
        (1, 5, Some(Percent(50.0)))
    );
    assert_eq!(readings.devices[0].holders.len(), 1);
}

#[test]
fn unnamed_holders_leave_held_unknown() {
    let labels = |gpu, pod| {
        [
            ("gpu", gpu),
            ("Hostname", "n"),
            ("namespace", "ns"),
            ("pod", pod),
        ]
    };
    let held = |readings: &Readings| {
        readings
            .devices
            .iter()
            .map(|reading| reading.held)
            .collect::<Vec<_>>()
    };
    // The labels name both devices of the pod, so the third device is free.
    let readings = read_on_node(vec![
        series(UTIL, &labels("0", "train"), 1.0),
        series(UTIL, &labels("1", "train"), 1.0),
        series(UTIL, &labels("2", ""), 1.0),
    ]);
    assert_eq!(held(&readings), [Some(true), Some(true), Some(false)]);
    // The labels name only one of the pod's two devices, so the other may be any device.
    let readings = read_on_node(vec![
        series(UTIL, &labels("0", "train"), 1.0),
        series(UTIL, &labels("2", ""), 1.0),
    ]);
    assert_eq!(held(&readings), [Some(true), None]);
}

#[test]
fn device_of_a_reservation_belongs_to_the_pods_of_its_group() {
    let pod = |namespace: &str, name: &str, group: &str, gpus: u64| Consumer {
        namespace: namespace.into(),
        name: name.into(),
        node: Some("n".into()),
        devices: std::rc::Rc::new([("nvidia.com/gpu".to_owned(), gpus)].into()),
        asks_for_devices: true,
        gpu_groups: vec![group.into()],
        ..Consumer::default()
    };
    let pods = Consumers::from_iter([
        pod("runai-reservation", "gpu-reservation-n", "g1", 1),
        pod("ml", "half-a", "g1", 0),
        pod("ml", "half-b", "g1", 0),
        pod("ml", "elsewhere", "g2", 0),
    ]);
    let amounts = BTreeMap::from([("nvidia.com/gpu".to_owned(), "2".to_owned())]);
    let host = NodeDetails {
        node: Node {
            name: "n".into(),
            ..Node::default()
        },
        capacity: amounts.clone(),
        allocatable: amounts,
        ..NodeDetails::default()
    };
    let inventory = Inventory::new(vec![host], Some(&pods), &[]);
    let node = &inventory.hosts[0];
    assert_eq!((node.gpus.total, node.gpus.used), (2, Some(1)));
    let holders: Vec<_> = node
        .holders
        .iter()
        .map(|holder| (&*holder.pod, holder.gpus.0, holder.slices["gpu.shared"]))
        .collect();
    assert_eq!(holders, [("half-a", 0, 1), ("half-b", 0, 1)]);
    let facts = ApiFacts::from_inventory(&inventory, Some(&pods));
    let labels = [
        ("gpu", "0"),
        ("Hostname", "n"),
        ("namespace", "runai-reservation"),
        ("pod", "gpu-reservation-n"),
    ];
    let samples = ExporterReading {
        values: vec![series(UTIL, &labels, 60.0)],
        ..ExporterReading::default()
    };
    let readings = read(&samples, &inventory, &facts);
    let of = |name: &str| ("ml".to_owned(), name.to_owned());
    assert_eq!(readings.devices[0].holders, [of("half-a"), of("half-b")]);
    assert_eq!(readings.devices[0].held, Some(true));
}
