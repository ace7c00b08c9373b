//! Tests what a unit of a node's resource was, by labels and series of the past.

use super::*;
use crate::model::facts::gpu::REPLICAS_LABEL;
use crate::model::values::series::Point;
use crate::model::{Inventory, NodeDetails};

#[test]
fn past_labels_take_precedence() {
    let host = |name: &str, replicas: &str| {
        let mut node = Node {
            name: name.into(),
            ..Node::default()
        };
        node.labels.insert(REPLICAS_LABEL.into(), replicas.into());
        let capacity = [("nvidia.com/gpu".to_owned(), "8".to_owned())].into();
        NodeDetails {
            node,
            capacity,
            ..NodeDetails::default()
        }
    };
    let now = Inventory::new(
        vec![host("a", "4"), host("b", "4"), host("c", "1")],
        None,
        &[],
    );
    let series = |node: &str, product: &str, replicas: &str| {
        let labels = [("node", node), (PRODUCT, product), (REPLICAS, replicas)];
        Series {
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            points: vec![],
        }
    };
    let then = [
        series("b", "NVIDIA-L4", "1"),
        series("c", "NVIDIA-L4-SHARED", "2"),
    ];
    let parts = NodeParts::from_nodes(now.hosts.iter()).with_past_labels(&then, &[]);
    let fraction = |node: &str| match parts.unit(node, "nvidia_com_gpu") {
        Some(ResourceUnit::Part(part)) => part.fraction,
        unit => {
            assert_eq!(unit, Some(ResourceUnit::Device), "{node}");
            None
        }
    };
    assert_eq!(
        (fraction("a"), fraction("b"), fraction("c")),
        (Some(0.25), None, Some(0.5))
    );
    assert_eq!(parts.unit("a", "cpu"), None);
    assert!(
        matches!(parts.unit("gone", "nvidia_com_mig_1g_10gb"), Some(ResourceUnit::Part(part)) if part.instance)
    );
}
#[test]
fn past_labels_of_mig_profiles_show_shares() {
    let series = |labels: &[(&str, &str)], units: &[f64]| Series {
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        points: units
            .iter()
            .map(|value| Point {
                at: 0,
                value: *value,
            })
            .collect(),
    };
    let resource = "nvidia_com_mig_1g_10gb";
    let labels = series(
        &[
            ("node", "gone"),
            (PRODUCT, "NVIDIA-A100-SXM4-80GB"),
            ("label_nvidia_com_mig_1g_10gb_replicas", "2"),
        ],
        &[],
    );
    let capacity = series(&[("node", "gone"), ("resource", resource)], &[14.0]);
    let parts = NodeParts::default().with_past_labels(&[labels], &[capacity]);
    let Some(ResourceUnit::Part(part)) = parts.unit("gone", resource) else {
        panic!("a share");
    };
    // 7 instances of 1/7 in 14 units: one device.
    assert_eq!(
        (part.name.as_str(), part.fraction, part.instance),
        ("mig-1g.10gb.shared", Some(1.0 / 14.0), false)
    );
}
#[test]
fn pods_that_share_a_device_show_that_units_of_a_deleted_node_are_shares() {
    let series = |labels: &[(&str, &str)], value: f64| Series {
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        points: [0, 1_800_000].map(|at| Point { at, value }).to_vec(),
    };
    let with_label = |pod: &str, label: (&str, &str)| {
        let labels = [
            label,
            ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
            ("Hostname", "gone"),
            ("gpu", "0"),
            ("UUID", "GPU-a"),
            ("modelName", "NVIDIA L4"),
            ("namespace", "ns"),
            ("pod", pod),
            ("container", "main"),
        ];
        series(&labels, 50.0)
    };
    let device = |pod: &str| with_label(pod, ("job", "dcgm"));
    let resource = "nvidia_com_gpu";
    let capacity = [series(&[("node", "gone"), ("resource", resource)], 4.0)];
    let unit = |devices: &[Series]| {
        NodeParts::default()
            .with_exported(devices, &capacity, &BTreeMap::new())
            .unit("gone", resource)
    };
    // One L4 with four clients.
    let Some(ResourceUnit::Part(part)) = unit(&[device("a"), device("b")]) else {
        panic!("a share");
    };
    assert_eq!(
        (part.name.as_str(), part.fraction),
        ("gpu.shared", Some(0.25))
    );
    assert_eq!(
        unit(&[device("a")]),
        Some(ResourceUnit::Device),
        "the other devices can be missing"
    );
    let claimed = ["a", "b"].map(|pod| with_label(pod, ("dra_claim_name", "gpu")));
    assert_eq!(
        unit(&claimed),
        Some(ResourceUnit::Device),
        "pods can share a claim of a whole device"
    );
}

#[test]
fn series_of_other_hours_show_the_kind_while_an_exporter_is_down() {
    let series = |labels: &[(&str, &str)], value: f64| Series {
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        points: vec![Point { at: 0, value }],
    };
    let device = |gpu: &str, kind: &str| {
        let labels = [
            ("__name__", "gpu_gfx_activity"),
            ("hostname", "amd"),
            ("gpu_id", gpu),
            ("gpu_partition_id", "0"),
            ("gpu_compute_partition_type", kind),
            ("gpu_memory_partition_type", "nps1"),
        ];
        series(&labels, 30.0)
    };
    let resource = "amd_com_gpu";
    let capacity = [series(&[("node", "amd"), ("resource", resource)], 4.0)];
    let aliases = BTreeMap::new();
    let cut = ["0", "1"].map(|gpu| device(gpu, "dpx"));
    let down = NodeParts::default().with_exported(&[], &capacity, &aliases);
    assert!(down.has_unseen_devices(&capacity));
    let known = down.with_exported(&cut, &capacity, &aliases);
    let Some(ResourceUnit::Part(part)) = known.unit("amd", resource) else {
        panic!("a partition");
    };
    // 4 halves of two devices: a pod with 2 units holds one GPU.
    assert_eq!((part.name.as_str(), part.fraction), ("dpx_nps1", Some(0.5)));
    assert!(!known.has_unseen_devices(&capacity));

    // The series of the hour itself take precedence: it had four whole devices.
    let whole = ["0", "1", "2", "3"].map(|gpu| device(gpu, "spx"));
    let up = NodeParts::default().with_exported(&whole, &capacity, &aliases);
    assert!(!up.has_unseen_devices(&capacity));
    let known = up.with_exported(&cut, &capacity, &aliases);
    assert_eq!(known.unit("amd", resource), Some(ResourceUnit::Device));
}
