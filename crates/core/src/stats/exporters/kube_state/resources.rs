//! Patterns for the GPU resources in series of kube-state-metrics.

use crate::model::facts::gpu::WHOLE;

/// Converts a resource name to the form in kube-state-metrics.
pub(crate) fn clean(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

/// Returns a pattern for resources whose units are whole devices, in the form of
/// kube-state-metrics.
pub(super) fn whole() -> String {
    format!("{}|{OTHER_WHOLE}", WHOLE.map(clean).join("|"))
}

/// Pattern for whole devices that are passed through to virtual machines, such as
/// `nvidia_com_GA102GL_A10`, for AMD's devices with one partition, and for Huawei's by chip.
const OTHER_WHOLE: &str = "nvidia_com_[A-Z]{2}[0-9]{3}[A-Z]*_.+|amd_com_spx_nps[0-9]+|\
    nvidia_com_pgpu|amd_com_gpu_pf|huawei_com_Ascend(310|910)[0-9A-Z]+(_1)?";

/// Returns a pattern for devices and slices that nodes offer.
pub(super) fn offered() -> String {
    format!("{}|{PARTS}", whole())
}

/// Selects the devices and slices in the capacity of nodes.
pub(crate) fn current_capacity() -> String {
    format!("kube_node_status_capacity{{resource=~\"{}\"}}", offered())
}

/// Returns a pattern for devices, slices and device memory that pods request.
pub(super) fn requested() -> String {
    format!(
        "{}|{SHARED_MEBIBYTES}|{SHARED_PERCENT}|{VOLCANO_MEBIBYTES}|{VOLCANO_PERCENT}",
        offered()
    )
}

/// Pattern for resources whose units are slices of devices, in the form of kube-state-metrics.
const PARTS: &str = "nvidia_com_mig_.+|.+_gpu_shared|amd_com_[a-z]+_nps[0-9]+|aliyun_com_gpu_mem|\
    volcano_sh_vgpu_number|nvidia_com_(NVIDIA|GRID)_.+|\
    amd_com_gpu_vf|intel_com_sriov_gpudevice|huawei_com_Ascend(310|910)[0-9A-Z]*_[0-9]+c.*";

/// Returns the resources for the memory, in MiB and in percent, that pods request on a device of
/// which they request a share.
pub(crate) fn shared_memory(resource: &str) -> (&'static str, &'static str) {
    match resource.starts_with("volcano_sh_") {
        true => (VOLCANO_MEBIBYTES, VOLCANO_PERCENT),
        false => (SHARED_MEBIBYTES, SHARED_PERCENT),
    }
}

const SHARED_MEBIBYTES: &str = "nvidia_com_gpumem";
const SHARED_PERCENT: &str = "nvidia_com_gpumem_percentage";
const VOLCANO_MEBIBYTES: &str = "volcano_sh_vgpu_memory";
const VOLCANO_PERCENT: &str = "volcano_sh_vgpu_memory_percentage";
