//! Tests how names of GPU types are parsed.

use super::*;

fn parsed(text: &str) -> String {
    GpuType::parse(text).map_or_else(|| "none".to_owned(), |gpu| gpu.to_string())
}

#[test]
fn spellings_of_one_type_parse_equal() {
    for spelling in [
        "NVIDIA-A100-SXM4-80GB",
        "NVIDIA A100-SXM4-80GB",
        "a100-80g",
        "A100-80G",
        "nvidia.com/a100-80g",
        "NVIDIA-A100-80GB-PCIe",
        "a100_80gb",
        "NVIDIA-A100-SXM4-80GB-SHARED",
        "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
    ] {
        assert_eq!(parsed(spelling), "a100-80g", "{spelling}");
    }
    assert_eq!(parsed("NVIDIA H100 80GB HBM3"), "h100-80g");
    assert_eq!(parsed("NVIDIA-A10"), "a10-24g");
    assert_eq!(parsed("AMD_Instinct_MI300X_OAM"), "mi300x");
    assert_eq!(parsed("Tesla-T4"), "t4");
    assert_eq!(parsed("NVIDIA-GeForce-RTX-4090"), "4090-24g");
    assert_eq!(parsed("A800-20G"), "a800-20g");
    assert_eq!(parsed("NVIDIA-RTX-6000-Ada-Generation"), "6000-ada");
    assert_eq!(parsed("Quadro-RTX-6000"), "6000");
    assert_eq!(parsed("NVIDIA-RTX-A6000"), "a6000");
    assert_eq!(parsed("NVIDIA-GH200-480GB"), "gh200");
    for spelling in [
        "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "nvidia-rtx-pro-6000",
        "rtx-pro-server-6000",
        "rtx-pro-6000",
    ] {
        assert_eq!(parsed(spelling), "pro-6000", "{spelling}");
    }
    assert_eq!(
        parsed("NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition"),
        "pro-6000-workstation"
    );
    assert_eq!(parsed("nvidia-tesla-a100"), "a100-40g");
    assert_eq!(parsed("nvidia-a100-80gb"), "a100-80g");
    assert_eq!(parsed("NVIDIA"), "none");
    assert_eq!(parsed(""), "none");
}

#[test]
fn missing_memory_matches_any_memory() {
    let kind = |text| GpuType::parse(text).unwrap();
    assert!(kind("a100").matches(&kind("NVIDIA-A100-SXM4-80GB")));
    assert!(kind("a10").matches(&kind("a10-24g")));
    assert!(!kind("a100-40g").matches(&kind("NVIDIA-A100-SXM4-80GB")));
    assert!(!kind("a10").matches(&kind("a100")));
    assert!(!kind("a100-80g").matches(&kind("nvidia-tesla-a100")));
    assert!(kind("a100-40g").matches(&kind("nvidia-tesla-a100")));
    assert!(kind("a100").matches(&kind("nvidia-tesla-a100")));
    assert!(kind("t4-16g").matches(&kind("Tesla-T4")));
}

#[test]
fn type_selects_its_labels_and_vendor() {
    let kind = |text| GpuType::parse(text).unwrap();
    let labels = kind("h100-80g").known_labels();
    assert!(labels["nvidia.com/gpu.product"].contains("NVIDIA-H100-80GB-HBM3"));
    assert!(labels["cloud.google.com/gke-accelerator"].contains("nvidia-h100-80gb"));
    assert_eq!(
        kind("mi300x").known_labels().keys().collect::<Vec<_>>(),
        [&"amd.com/gpu.product-name"]
    );
    assert_eq!(
        (kind("MI300X").resource(), kind("a100").resource()),
        ("amd.com/gpu", "nvidia.com/gpu")
    );
}
