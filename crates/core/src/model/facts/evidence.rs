//! Labels of nodes that show whether the units of a resource are devices, instances or shares.
//!
//! Sources of labels: NVIDIA/k8s-device-plugin (docs of GPU feature discovery), GKE's documentation
//! of time-sharing and of multi-instance GPUs, ROCm/k8s-device-plugin (docs of the node labeller),
//! intel/intel-device-plugins-for-kubernetes (cmd/gpu_plugin/labels.md).

use super::gpu::{REPLICAS_LABEL, WHOLE};
use super::node::Node;

/// Labels whose values are evidence, in the order of their checks.
pub(crate) const EVIDENCE_LABELS: [&str; 10] = [
    PRODUCT,
    REPLICAS_LABEL,
    GPU_COUNT,
    GKE_CLIENTS,
    GKE_PARTITION,
    GKE_COUNT,
    KARPENTER_COUNT,
    ALIYUN_COUNT,
    AMD_PARTITION,
    INTEL_COUNT,
];

/// Resources for whole devices whose units labels describe.
pub(crate) const LABELED: [&str; 4] = [
    WHOLE[0],
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
];

/// Returns true for labels whose values are evidence, including those of MIG profiles.
pub(crate) fn is_evidence(label: &str) -> bool {
    EVIDENCE_LABELS.contains(&label)
        || (label.starts_with(MIG) && (label.ends_with(REPLICAS) || label.ends_with(COUNT)))
}

/// Returns true for the resource of a MIG profile or of renamed shares, whose units labels
/// describe.
pub(crate) fn has_profile_labels(resource: &str) -> bool {
    resource.starts_with(MIG) || is_renamed(resource)
}

/// Prefix of the resources of MIG profiles, and of their labels.
pub(super) const MIG: &str = "nvidia.com/mig-";
pub(super) const REPLICAS: &str = ".replicas";
pub(super) const COUNT: &str = ".count";

pub(super) const PRODUCT: &str = "nvidia.com/gpu.product";
/// Number of devices, or of instances with MIG's single strategy.
pub(super) const GPU_COUNT: &str = "nvidia.com/gpu.count";
pub(super) const GKE_CLIENTS: &str = "cloud.google.com/gke-max-shared-clients-per-gpu";
pub(super) const GKE_PARTITION: &str = "cloud.google.com/gke-gpu-partition-size";
pub(super) const GKE_COUNT: &str = "cloud.google.com/gke-accelerator-count";
/// Number of devices of the instance type (aws/karpenter-provider-aws, pkg/apis/v1/labels.go).
pub(super) const KARPENTER_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
/// Number of devices of the machine (Alibaba Cloud's documentation of GPU scheduling labels).
pub(super) const ALIYUN_COUNT: &str = "aliyun.accelerator/nvidia_count";
/// Modes of all devices of a node, such as `dpx_nps1`.
pub(super) const AMD_PARTITION: &str = "amd.com/compute-memory-partition";
/// Prefix of HAMi's annotations that list Huawei's devices by chip.
pub(super) const HAMI_ASCEND: &str = "hami.io/node-register-";
/// Number of Moore Threads' devices, and the resource with 16 units of each of them
/// (Project-HAMi/website, docs of Moore Threads' devices).
pub(super) const MTHREADS_COUNT: &str = "mthreads.com/gpu.count";
pub(super) const MTHREADS_CORES: &str = "mthreads.com/sgpu-core";
pub(super) const MTHREADS_CORES_PER_DEVICE: u64 = 16;
pub(super) const INTEL_COUNT: &str = "gpu.intel.com/device.count";

/// Returns true for the name that NVIDIA's device plugin gives shares if `renameByDefault` is
/// configured.
pub(super) fn is_renamed(resource: &str) -> bool {
    resource.ends_with("/gpu.shared")
}

/// Returns the number of NVIDIA's devices in labels of GPU feature discovery or of a cloud.
pub(super) fn device_count(node: &Node) -> Option<u64> {
    [GPU_COUNT, GKE_COUNT, KARPENTER_COUNT, ALIYUN_COUNT]
        .iter()
        .find_map(|label| number(node, label))
}

pub(super) fn number(node: &Node, label: &str) -> Option<u64> {
    node.labels
        .get(label)
        .and_then(|text| text.parse().ok())
        .filter(|count| *count > 0)
}
