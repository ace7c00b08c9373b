//! Tests what a unit is on nodes with labels of clouds, and with resources of HAMi, of other vendors
//! and of virtual machines.

use super::tests::{GPU, kind, named, node};
use super::*;
use crate::model::facts::evidence::{ALIYUN_COUNT, KARPENTER_COUNT, is_evidence};
use crate::model::facts::part::Part;

#[test]
fn labels_of_clouds_count_devices() {
    for label in [KARPENTER_COUNT, ALIYUN_COUNT] {
        assert!(is_evidence(label));
        // A g5.xlarge has one A10G, in 4 units.
        assert_eq!(
            kind(&node(&[(label, "1")], GPU, 4)),
            named("gpu.shared", 0.25)
        );
        // A g5.12xlarge has four.
        assert_eq!(kind(&node(&[(label, "4")], GPU, 4)), named("whole", 1.0));
        // 3 of 4 devices are whole, and the fourth has 4 renamed shares.
        let mut mixed = node(&[(label, "4")], "nvidia.com/gpu.shared", 4);
        mixed.allocatable.insert(GPU.to_owned(), "3".to_owned());
        let part = Part::read(&mixed, &BTreeMap::new(), "nvidia.com/gpu.shared").unwrap();
        assert_eq!(part.fraction, Some(0.25));
    }
    for label in [
        "nvidia.com/mig-1g.5gb.count",
        "nvidia.com/mig-2g.10gb.me.replicas",
    ] {
        assert!(is_evidence(label), "{label}");
    }
    assert!(!is_evidence("nvidia.com/mig-1g.5gb.product"));
}

#[test]
fn resources_of_hami_count_shares_of_the_registered_devices() {
    // Two boards with 10 shares each (HAMi, docs/develop/protocol.md).
    let boards = "MLU-a,10,23308,0,MLU-MLU370-X4,0,true:MLU-b,10,23308,0,MLU-MLU370-X4,0,true:";
    let json = r#"[{"id":"a","count":10,"devmem":65536},{"id":"b","count":10,"devmem":65536}]"#;
    for (resource, annotation, register) in [
        ("cambricon.com/vmlu", "hami.io/node-mlu-register", boards),
        ("hygon.com/dcunum", "hami.io/node-dcu-register", boards),
        (
            "huawei.com/Ascend910B2",
            "hami.io/node-register-Ascend910B2",
            json,
        ),
        (
            "huawei.com/Ascend310P",
            "hami.io/node-register-Ascend310P",
            json,
        ),
    ] {
        let mut host = node(&[], resource, 20);
        host.annotations
            .insert(annotation.to_owned(), register.to_owned());
        assert_eq!(kind(&host), named(SHARED, 0.1), "2 boards in 20 units");
        host.allocatable.insert(resource.to_owned(), "2".to_owned());
        assert_eq!(kind(&host), named("whole", 1.0), "a unit for each board");
    }
    // HAMi alone uses the name, so a unit is a share of unknown size without the annotation.
    for resource in [
        "cambricon.com/vmlu",
        "hygon.com/dcunum",
        "mthreads.com/vgpu",
    ] {
        assert_eq!(kind(&node(&[], resource, 20)), (SHARED.to_owned(), None));
        assert_eq!(
            Part::from_label(&resource.replace(['.', '/'], "_")).map(|part| part.fraction),
            Some(None)
        );
    }
    // Moore Threads: 100 shares of each of 2 boards, by the label or by 16 cores for each board.
    let label = [(MTHREADS_COUNT, "2")];
    assert_eq!(
        kind(&node(&label, "mthreads.com/vgpu", 200)),
        named(SHARED, 0.01)
    );
    let capacity = [(MTHREADS_CORES.to_owned(), "32".to_owned())].into();
    let part = Part::read(
        &node(&[], "mthreads.com/vgpu", 200),
        &capacity,
        "mthreads.com/vgpu",
    );
    assert_eq!(part.unwrap().fraction, Some(0.01));
}

#[test]
fn resources_of_vendors_count_devices_and_virtual_devices() {
    for resource in [
        "cambricon.com/mlu",
        "hygon.com/dcu",
        "huawei.com/Ascend310",
        "huawei.com/Ascend310P",
        "huawei.com/Ascend910",
        "huawei.com/Ascend910B4-1",
    ] {
        assert_eq!(kind(&node(&[], resource, 8)), named("whole", 1.0));
    }
    for (resource, name, fraction) in [
        // 4 of 8 cores.
        (
            "huawei.com/Ascend310P-4c.3cpu",
            "vnpu-ascend310p-4c",
            Some(0.5),
        ),
        // 5 of 20, and 6 of 24.
        ("huawei.com/Ascend910-5c", "vnpu-ascend910-5c", Some(0.25)),
        ("huawei.com/Ascend910-6c", "vnpu-ascend910-6c", Some(0.25)),
        // 2 of 30 or 32.
        ("huawei.com/Ascend910-2c", "vnpu-ascend910-2c", None),
    ] {
        assert_eq!(kind(&node(&[], resource, 8)), (name.to_owned(), fraction));
        let label = resource.replace(['.', '/', '-'], "_");
        let part = Part::from_label(&label).unwrap();
        assert_eq!((part.name.as_str(), part.fraction), (name, fraction));
    }
}

#[test]
fn capacity_of_shares_by_memory_counts_the_registered_devices() {
    let mut host = node(&[], "volcano.sh/vgpu-number", 20);
    let register = "GPU-a,10,24576,NVIDIA-NVIDIA A10,true:GPU-b,10,24576,NVIDIA-NVIDIA A10,true:";
    host.annotations
        .insert(VOLCANO_REGISTER.to_owned(), register.to_owned());
    assert_eq!(kind(&host), named(SHARED, 0.1), "2 devices in 20 units");
}

#[test]
fn devices_of_kubevirt_have_aliases_and_virtual_functions() {
    let product = [("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB")];
    for resource in ["nvidia.com/pgpu", "amd.com/gpu_pf"] {
        assert_eq!(kind(&node(&[], resource, 2)), named("whole", 1.0));
    }
    let alias = node(&product, "nvidia.com/pgpu", 2);
    assert_eq!(
        alias.gpu_type().map(|kind| kind.to_string()).as_deref(),
        Some("a100-40g"),
        "from the label"
    );
    for (resource, name, fraction) in [
        // One and three of seven compute slices, not 5 and 20 of 40 GB.
        ("NVIDIA_A100-1-5CME", "vgpu-nvidia_a100-1-5cme", 1.0 / 7.0),
        ("GRID_A100-1-5C", "vgpu-grid_a100-1-5c", 1.0 / 7.0),
        ("NVIDIA_A100-3-20C", "vgpu-nvidia_a100-3-20c", 3.0 / 7.0),
        // 8 of 40 GB.
        ("NVIDIA_A100-8C", "vgpu-nvidia_a100-8c", 0.2),
    ] {
        let resource = format!("nvidia.com/{resource}");
        assert_eq!(kind(&node(&product, &resource, 2)), named(name, fraction));
    }
    // 12 of 24 GB: an A10 has only one size.
    assert_eq!(
        kind(&node(&[], "nvidia.com/NVIDIA_A10-12Q", 2)),
        named("vgpu-nvidia_a10-12q", 0.5)
    );
    for (resource, name) in [
        ("amd.com/gpu_vf", "vgpu-gpu_vf"),
        ("intel.com/sriov-gpudevice", "vgpu-sriov-gpudevice"),
    ] {
        assert_eq!(kind(&node(&[], resource, 7)), (name.to_owned(), None));
    }
}
