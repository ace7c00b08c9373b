//! Tests what a unit of a resource is, by the evidence on a node.

use super::*;
use crate::model::facts::part::Part;

pub(super) fn node(labels: &[(&str, &str)], resource: &str, units: u64) -> Node {
    Node {
        name: "n".into(),
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        allocatable: [(resource.to_owned(), units.to_string())].into(),
        ..Node::default()
    }
}

/// Name and fraction of one unit, or `whole`.
pub(super) fn kind(node: &Node) -> (String, Option<f64>) {
    let (resource, _) = node.allocatable.first_key_value().unwrap();
    match unit(node, &BTreeMap::new(), resource) {
        Some(Unit::Whole) => ("whole".to_owned(), Some(1.0)),
        Some(Unit::Slice(slice)) => {
            let part = Part::read(node, &BTreeMap::new(), resource).unwrap();
            assert_eq!(part.name, slice.name);
            (slice.name, part.fraction)
        }
        None => ("none".to_owned(), None),
    }
}

pub(super) const GPU: &str = "nvidia.com/gpu";

pub(super) fn named(name: &str, fraction: f64) -> (String, Option<f64>) {
    (name.to_owned(), Some(fraction))
}

#[test]
fn labels_of_gke_show_shares_and_instances() {
    let accelerator = ("cloud.google.com/gke-accelerator", "nvidia-l4");
    let count = |number| ("cloud.google.com/gke-accelerator-count", number);
    let clients = |number| (GKE_CLIENTS, number);
    // One L4 with four clients.
    let shared = [
        accelerator,
        count("1"),
        ("cloud.google.com/gke-gpu-sharing-strategy", "time-sharing"),
        clients("4"),
    ];
    assert_eq!(kind(&node(&shared, GPU, 4)), named("gpu.shared", 0.25));
    // Without the labels of sharing, four units of one device.
    assert_eq!(
        kind(&node(&[accelerator, count("1")], GPU, 4)),
        named("gpu.shared", 0.25)
    );
    assert_eq!(
        kind(&node(&[accelerator, count("4")], GPU, 4)),
        named("whole", 1.0)
    );
    assert_eq!(
        kind(&node(&[accelerator, clients("1")], GPU, 4)),
        named("whole", 1.0)
    );
    let a100 = ("cloud.google.com/gke-accelerator", "nvidia-tesla-a100");
    let size = (GKE_PARTITION, "1g.5gb");
    // 7 instances of one A100.
    for labels in [&[a100, size][..], &[a100, size, count("1")]] {
        assert_eq!(kind(&node(labels, GPU, 7)), named("mig-1g.5gb", 1.0 / 7.0));
    }
    // Each of the 7 instances has two clients.
    assert_eq!(
        kind(&node(&[a100, size, clients("2")], GPU, 14)),
        named("gpu.shared", 1.0 / 14.0)
    );
}

#[test]
fn more_units_than_devices_are_shares() {
    let count = |number| ("nvidia.com/gpu.count", number);
    let replicas = |number| (REPLICAS_LABEL, number);
    let product = ("nvidia.com/gpu.product", "NVIDIA-A10G");
    for (labels, units, expected) in [
        // NVIDIA/k8s-device-plugin#732: 10 units of one device, although the label says 1.
        (
            vec![product, count("1"), replicas("1")],
            10,
            named("gpu.shared", 0.1),
        ),
        (vec![product, count("1")], 10, named("gpu.shared", 0.1)),
        (
            vec![product, count("2"), replicas("4")],
            8,
            named("gpu.shared", 0.25),
        ),
        // Two of four devices have 4 shares: 4 devices in 2 + 8 units.
        (
            vec![product, count("4"), replicas("4")],
            10,
            named("gpu.shared", 0.4),
        ),
        // The label of the replicas is outdated.
        (
            vec![product, count("8"), replicas("4")],
            8,
            named("whole", 1.0),
        ),
        (
            vec![product, count("8"), replicas("1")],
            8,
            named("whole", 1.0),
        ),
        // A device is broken.
        (vec![product, count("8")], 7, named("whole", 1.0)),
        (vec![product], 10, named("whole", 1.0)),
        (vec![product, replicas("4")], 8, named("gpu.shared", 0.25)),
        // With MIG's single strategy, the count is that of the instances.
        (
            vec![
                ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
                count("14"),
            ],
            14,
            named("mig-1g.5gb", 1.0 / 7.0),
        ),
        (
            vec![
                ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
                count("7"),
            ],
            14,
            named("gpu.shared", 1.0 / 14.0),
        ),
    ] {
        assert_eq!(
            kind(&node(&labels, GPU, units)),
            expected,
            "{labels:?} {units}"
        );
    }
    let intel = [("gpu.intel.com/device.count", "2")];
    assert_eq!(
        kind(&node(&intel, "gpu.intel.com/i915", 10)),
        named("gpu.shared", 0.2)
    );
    assert_eq!(
        kind(&node(&intel, "gpu.intel.com/xe", 2)),
        named("whole", 1.0)
    );
}

#[test]
fn renamed_shares_exclude_the_whole_devices_of_the_node() {
    let mut mixed = node(&[(GPU_COUNT, "4")], "nvidia.com/gpu.shared", 8);
    mixed.allocatable.insert(GPU.to_owned(), "2".to_owned());
    let part = Part::read(&mixed, &BTreeMap::new(), "nvidia.com/gpu.shared").unwrap();
    // Two of the four devices in 8 shares.
    assert_eq!((part.name.as_str(), part.fraction), (SHARED, Some(0.25)));
    assert_eq!(
        unit(&mixed, &BTreeMap::new(), GPU),
        Some(Unit::Whole),
        "two of four devices"
    );
}

#[test]
fn partitions_of_amd_have_one_or_several_names() {
    let label = |modes| ("amd.com/compute-memory-partition", modes);
    let product = ("amd.com/gpu.product-name", "AMD_Instinct_MI355X");
    let amd = "amd.com/gpu";
    // 16 halves of 8 devices.
    assert_eq!(
        kind(&node(&[product, label("dpx_nps1")], amd, 16)),
        named("dpx_nps1", 0.5)
    );
    assert_eq!(
        kind(&node(&[product, label("CPX_NPS4")], amd, 64)),
        named("cpx_nps4", 0.125)
    );
    for modes in ["spx_nps1", "none_none", ""] {
        assert_eq!(
            kind(&node(&[product, label(modes)], amd, 8)),
            named("whole", 1.0)
        );
    }
    assert_eq!(
        kind(&node(&[product], "amd.com/spx_nps1", 8)),
        named("whole", 1.0),
        "mixed naming of devices with one partition"
    );
    assert_eq!(
        kind(&node(&[product], "amd.com/cpx_nps1", 64)),
        named("cpx_nps1", 0.125)
    );
}

#[test]
fn devices_of_virtual_machines_are_whole_or_virtual_gpus() {
    for resource in [
        "nvidia.com/GA102GL_A10",
        "nvidia.com/GH100_H100_SXM5_80GB",
        "nvidia.com/TU104GL_Tesla_T4",
    ] {
        assert_eq!(kind(&node(&[], resource, 2)), named("whole", 1.0));
    }
    for resource in [
        "nvidia.com/MT2892_Family",
        "nvidia.com/gpumem",
        "nvidia.com/gpucores",
        "nvidia.com/hostdev",
        "cpu",
    ] {
        assert_eq!(kind(&node(&[], resource, 2)), ("none".to_owned(), None));
    }
    // 12 of 24 GB.
    let product = [("nvidia.com/gpu.product", "NVIDIA-A10")];
    assert_eq!(
        kind(&node(&product, "nvidia.com/NVIDIA_A10-12Q", 2)),
        named("vgpu-nvidia_a10-12q", 0.5)
    );
    let model = |resource: &str| {
        node(&[], resource, 2)
            .gpu_type()
            .map(|kind| kind.to_string())
    };
    assert_eq!(
        model("nvidia.com/GA102GL_A10").as_deref(),
        Some("a10-24g"),
        "from the resource"
    );
}

#[test]
fn shares_of_volcano_are_by_memory() {
    let mut host = node(&[], "volcano.sh/vgpu-number", 20);
    let register = "GPU-a,10,24576,NVIDIA-NVIDIA A10,true:GPU-b,10,24576,NVIDIA-NVIDIA A10,true:";
    host.annotations
        .insert(VOLCANO_REGISTER.to_owned(), register.to_owned());
    let part = Part::read(&host, &BTreeMap::new(), "volcano.sh/vgpu-number").unwrap();
    assert!(part.by_memory);
    assert_eq!(
        part.with_memory(Some(6144.0), None).fraction,
        Some(0.25),
        "6144 of 24576 MiB"
    );
}

#[test]
fn shares_of_mig_instances_are_fractions_of_the_instances() {
    let label = |suffix: &str| format!("nvidia.com/mig-1g.10gb.{suffix}");
    let (replicas, count) = (label("replicas"), label("count"));
    let product = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
    let one_board = ("nvidia.com/gpu.count", "1");
    let shared = |fraction| named("mig-1g.10gb.shared", fraction);
    let instance = || named("mig-1g.10gb", 1.0 / 7.0);
    let mig = "nvidia.com/mig-1g.10gb";
    let renamed = "nvidia.com/mig-1g.10gb.shared";
    for (labels, resource, units, expected) in [
        // 7 instances of one A100 in 14 units: 1/7 of a device, halved.
        (vec![(replicas.as_str(), "2")], mig, 14, shared(1.0 / 14.0)),
        (vec![(count.as_str(), "7")], mig, 14, shared(1.0 / 14.0)),
        // The number of instances rules, as with whole devices.
        (
            vec![(count.as_str(), "7"), (replicas.as_str(), "1")],
            mig,
            28,
            shared(1.0 / 28.0),
        ),
        (
            vec![(count.as_str(), "14"), (replicas.as_str(), "2")],
            mig,
            14,
            instance(),
        ),
        // One device has at most 7 of these instances.
        (vec![one_board], mig, 14, shared(1.0 / 14.0)),
        (vec![one_board], mig, 7, instance()),
        (vec![], mig, 14, instance()),
        (vec![(replicas.as_str(), "0")], mig, 7, instance()),
        // Renamed shares.
        (
            vec![(replicas.as_str(), "2")],
            renamed,
            14,
            shared(1.0 / 14.0),
        ),
        (vec![(count.as_str(), "7")], renamed, 14, shared(1.0 / 14.0)),
        (vec![], renamed, 14, ("mig-1g.10gb.shared".to_owned(), None)),
    ] {
        let labels = [&[product][..], &labels].concat();
        assert_eq!(
            kind(&node(&labels, resource, units)),
            expected,
            "{labels:?} {resource} {units}"
        );
    }
    for name in [mig, renamed] {
        assert_eq!(
            is_instance(name.trim_start_matches("nvidia.com/")),
            name == mig
        );
    }
    let part = Part::from_label("nvidia_com_mig_1g_10gb_shared").unwrap();
    assert_eq!(
        (part.name.as_str(), part.fraction, part.instance),
        ("mig-1g.10gb.shared", None, false),
        "the number of shares is unknown"
    );
}
