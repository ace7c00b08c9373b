//! Tests how series are mapped to devices, nodes and pods.

use std::rc::Rc;

use super::*;
use crate::model::{Consumer, Node, NodeDetails};

fn series(labels: &[(&str, &str)]) -> Series {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    Series {
        labels,
        points: Vec::new(),
    }
}

fn facts() -> ApiFacts {
    let host = |name: &str, address: &str| NodeDetails {
        node: Node {
            name: name.into(),
            schedulable: true,
            ..Node::default()
        },
        allocatable: [("nvidia.com/gpu".to_owned(), "8".to_owned())].into(),
        addresses: vec![address.into()],
        ..NodeDetails::default()
    };
    let pod = |name: &str, gpus: Option<u64>| Consumer {
        namespace: "team".into(),
        name: name.into(),
        node: Some("gpu-1".into()),
        devices: Rc::new(
            gpus.map(|gpus| ("nvidia.com/gpu".to_owned(), gpus))
                .into_iter()
                .collect(),
        ),
        asks_for_devices: gpus.is_some(),
        ..Consumer::default()
    };
    let consumers = Consumers::from_iter([pod("train-0", Some(2)), pod("exporter-x", None)]);
    let inventory = Inventory::new(
        vec![host("gpu-1", "10.0.0.1"), host("gpu-2", "10.0.0.2")],
        Some(&consumers),
        &[],
    );
    ApiFacts::from_inventory(&inventory, Some(&consumers))
}

#[test]
fn nodes_are_resolved_by_name_address_and_exporter() {
    let facts = facts();
    let node = |labels: &[(&str, &str)]| {
        let mut labels = labels.to_vec();
        labels.push(("gpu", "0"));
        let series = series(&labels);
        IdentityReader::new(&facts, &[])
            .device(&series)
            .map(|device| device.node)
    };
    assert_eq!(node(&[("Hostname", "gpu-1")]).as_deref(), Some("gpu-1"));
    assert_eq!(
        node(&[("hostname", "gpu-2.example.com")]).as_deref(),
        Some("gpu-2")
    );
    assert_eq!(
        node(&[("instance", "10.0.0.2:9400")]).as_deref(),
        Some("gpu-2")
    );
    // The host name is that of the exporter's container. The exporter's pod leads to the node.
    let exporter_pod = [
        ("Hostname", "exporter-x"),
        ("namespace", "team"),
        ("pod", "exporter-x"),
    ];
    assert_eq!(node(&exporter_pod).as_deref(), Some("gpu-1"));
    assert_eq!(node(&[("Hostname", "gpu-9")]), None, "another cluster's");
}

#[test]
fn holder_is_a_live_requesting_pod_of_the_node() {
    let facts = facts();
    let holder = |labels: &[(&str, &str)], answer: &[Series]| {
        let series = series(labels);
        IdentityReader::new(&facts, answer)
            .holder(&series, "gpu-1")
            .map(|(_, pod)| pod)
    };
    let plain = [("namespace", "team"), ("pod", "train-0")];
    assert_eq!(holder(&plain, &[]).as_deref(), Some("train-0"));
    let busy = series(&[("exported_namespace", "team"), ("exported_pod", "train-0")]);
    assert_eq!(
        holder(&plain, std::slice::from_ref(&busy)),
        None,
        "here `pod` is the exporter's"
    );
    assert_eq!(
        holder(&[("namespace", "team"), ("pod", "exporter-x")], &[]),
        None
    );
    assert_eq!(
        holder(&[("namespace", "team"), ("pod", "ended")], &[]),
        None
    );
    assert_eq!(holder(&[("namespace", "team"), ("pod", "")], &[]), None);
    assert_eq!(
        holder(
            &[("exported_namespace", "team"), ("pod_name", "train-0")],
            &[]
        )
        .as_deref(),
        Some("train-0")
    );
}

#[test]
fn partitions_are_slices_but_whole_devices_are_not() {
    let slice_of = |labels: &[(&str, &str)]| {
        let labels: Vec<_> = labels
            .iter()
            .copied()
            .chain([("gpu", "0"), ("Hostname", "gpu-1")])
            .collect();
        IdentityReader::new(&facts(), &[])
            .device(&series(&labels))
            .unwrap()
            .slice
    };
    assert_eq!(slice_of(&[("gpu_compute_partition_type", "spx")]), None);
    assert_eq!(
        slice_of(&[
            ("gpu_compute_partition_type", "CPX"),
            ("gpu_memory_partition_type", "NPS4"),
            ("gpu_partition_id", "3")
        ]),
        Some(("cpx_nps4".into(), 3))
    );
    // A board that cannot be partitioned, such as an MI210.
    let none = [
        ("gpu_compute_partition_type", "none"),
        ("gpu_memory_partition_type", "none"),
    ];
    assert_eq!(slice_of(&none), None);
    assert_eq!(
        slice_of(&[&none[..], &[("gpu_partition_id", "0")]].concat()),
        None
    );
    assert_eq!(
        slice_of(&[&none[..], &[("gpu_partition_id", "1")]].concat()),
        Some(("unknown_nps1".into(), 1))
    );
    assert_eq!(
        slice_of(&[("GPU_I_PROFILE", "1g.10gb"), ("GPU_I_ID", "3")]),
        Some(("1g.10gb".into(), 3))
    );
}

#[test]
fn holder_labels_count_for_any_target_container() {
    let facts = facts();
    let target = [
        ("namespace", "monitoring"),
        ("pod", "exporter-x"),
        ("container", "exporter"),
    ];
    let held: Vec<_> = target
        .into_iter()
        .chain([("pod_namespace", "team"), ("pod_name", "train-0")])
        .collect();
    let reader = IdentityReader::new(&facts, &[]);
    assert_eq!(
        reader.named_pod(&series(&held)),
        Some(("team".to_owned(), "train-0".to_owned()))
    );
    assert_eq!(
        reader.named_pod(&series(&target)),
        None,
        "the exporter holds no device"
    );
}

#[test]
fn nodes_are_resolved_when_the_exporter_does_not_know_its_host() {
    let facts = facts();
    let read = |answer: &[Series]| -> Vec<Option<String>> {
        let reader = IdentityReader::new(&facts, answer);
        let node = |series| reader.device(series).map(|device| device.node);
        answer.iter().map(node).collect()
    };
    let gpu = |labels: &[(&str, &str)]| series(&[labels, &[("gpu", "0")]].concat());
    let on = |node: &str| Some(node.to_owned());
    // NVIDIA/dcgm-exporter#572: the host name of a container is `localhost`.
    let local = gpu(&[("Hostname", "localhost"), ("instance", "10.0.0.2:9400")]);
    // NVIDIA/dcgm-exporter#78: a relabeled node next to the exporter's pod.
    let relabeled = gpu(&[
        ("Hostname", "nvidia-dcgm-exporter-x"),
        ("kubernetes_node", "gpu-2"),
        ("pod_name", "nvidia-dcgm-exporter-x"),
    ]);
    let upper = gpu(&[("Hostname", "GPU-1")]);
    // Metrics of Google's containers name only the pod.
    let of_pod = gpu(&[("exported_namespace", "team"), ("exported_pod", "train-0")]);
    // The pod of another cluster has the same name.
    let foreign = gpu(&[
        ("Hostname", "gpu-9"),
        ("exported_namespace", "team"),
        ("exported_pod", "train-0"),
    ]);
    assert_eq!(
        read(&[local, relabeled, upper, of_pod, foreign.clone()]),
        [on("gpu-2"), on("gpu-2"), on("gpu-1"), on("gpu-1"), None]
    );
    let reader = IdentityReader::new(&facts, &[]);
    assert_eq!(
        reader.unmatched(&foreign),
        Some(("Hostname", "gpu-9".to_owned()))
    );
    // Another exporter on the node reports the same device.
    let known = series(&[("Hostname", "gpu-1"), ("UUID", "GPU-a")]);
    let unknown = series(&[
        ("__name__", "nvidia_smi_utilization_gpu_ratio"),
        ("instance", "10.9.9.9:9835"),
        ("uuid", "a"),
    ]);
    assert_eq!(read(&[known, unknown]), [on("gpu-1"), on("gpu-1")]);
}

#[test]
fn holders_are_read_from_targets_of_both_kinds_in_one_job() {
    let facts = facts();
    let clashing = series(&[
        ("job", "dcgm"),
        ("namespace", "gpu-operator"),
        ("pod", "dcgm-exporter-x7k2p"),
        ("exported_namespace", "team"),
        ("exported_pod", "other"),
    ]);
    let plain = series(&[("job", "dcgm"), ("namespace", "team"), ("pod", "train-0")]);
    let reader = IdentityReader::new(&facts, std::slice::from_ref(&clashing));
    assert_eq!(
        reader.holder(&plain, "gpu-1"),
        Some(("team".to_owned(), "train-0".to_owned()))
    );
}
