//! Recognizes the names of extended resources that follow a pattern: devices and virtual GPUs of
//! virtual machines, AMD's partitions, and all names in the form of kube-state-metrics.

use super::gpu::{SHARED_MEMORY, WHOLE, mig_profile};

/// Resource of Volcano's vGPU plugin, which counts shares of devices.
pub const VOLCANO_SHARE: &str = "volcano.sh/vgpu-number";

/// Node annotation of Volcano's vGPU plugin, in the form of HAMi's annotation.
pub const VOLCANO_REGISTER: &str = "volcano.sh/node-vgpu-register";

/// Returns true for AMD's resources of devices with one partition, such as `amd.com/spx_nps1`, which
/// the mixed naming strategy uses.
pub fn whole_partition(resource: &str) -> bool {
    resource.starts_with("amd.com/spx_nps")
}

/// Extracts the model from the resource of a device that is passed through to virtual machines:
/// `nvidia.com/GA102GL_A10` → `A10`. NVIDIA/kubevirt-gpu-device-plugin builds the name from the PCI
/// ID database: the chip, then the product.
pub fn passthrough_model(resource: &str) -> Option<&str> {
    let (chip, model) = resource.strip_prefix("nvidia.com/")?.split_once('_')?;
    is_chip(chip).then_some(model)
}

/// Returns true for the code name of a chip: two letters, three digits, and sometimes letters for
/// the market, as in `GA102GL` or `GH100`.
fn is_chip(word: &str) -> bool {
    let (Some(family), Some(digits)) = (word.get(..2), word.get(2..5)) else {
        return false;
    };
    let market = word.get(5..).unwrap_or_default();
    family.bytes().all(|byte| byte.is_ascii_uppercase())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && market.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Extracts the memory in GB from the resource of a virtual GPU for virtual machines:
/// `nvidia.com/NVIDIA_A10-12Q` → 12. The letter is the license: compute, graphics or desktop.
pub fn virtual_gpu(resource: &str) -> Option<u32> {
    let name = resource.strip_prefix("nvidia.com/")?;
    let (_, size) = name
        .strip_prefix("NVIDIA_")
        .or_else(|| name.strip_prefix("GRID_"))?
        .rsplit_once('-')?;
    size.strip_suffix(['A', 'B', 'C', 'Q'])?.parse().ok()
}

/// Returns true for resources that count whole devices, shares, MIG slices or partitions.
pub fn is_device(resource: &str) -> bool {
    WHOLE.contains(&resource)
        || resource == "nvidia.com/gpu.shared"
        || resource == VOLCANO_SHARE
        || mig_profile(resource).is_some()
        || resource
            .strip_prefix("amd.com/")
            .is_some_and(|name| name.contains("_nps"))
        || passthrough_model(resource).is_some()
        || virtual_gpu(resource).is_some()
}

/// Restores the name of a GPU resource from its form in kube-state-metrics, in which all characters
/// other than letters and digits are underscores. Names of other resources may be wrong.
pub(crate) fn resource_name(label: &str) -> String {
    if let Some(profile) = label.strip_prefix("nvidia_com_mig_") {
        return format!("nvidia.com/mig-{}", profile.replace('_', "."));
    }
    match label {
        "aliyun_com_gpu_mem" => return SHARED_MEMORY.to_owned(),
        "volcano_sh_vgpu_number" => return VOLCANO_SHARE.to_owned(),
        _ => {}
    }
    if let Some(whole) = WHOLE.iter().find(|whole| is_form_of(label, whole)) {
        return (*whole).to_owned();
    }
    if let Some(domain) = label.strip_suffix("_gpu_shared") {
        return format!("{}/gpu.shared", domain.replace('_', "."));
    }
    if let Some(model) = label.strip_prefix("amd_com_") {
        return format!("amd.com/{model}");
    }
    match label.strip_prefix("nvidia_com_") {
        Some(name) if name.starts_with("NVIDIA_") || name.starts_with("GRID_") => {
            let (model, size) = name.rsplit_once('_').unwrap_or((name, ""));
            format!("nvidia.com/{model}-{size}")
        }
        Some(name) => format!("nvidia.com/{name}"),
        None => label.to_owned(),
    }
}

/// Restores the key of a label of a MIG profile from its form in kube-state-metrics:
/// `label_nvidia_com_mig_1g_10gb_count` → `nvidia.com/mig-1g.10gb.count`.
pub(crate) fn mig_label(label: &str) -> Option<String> {
    let key = label.strip_prefix("label_")?;
    key.starts_with("nvidia_com_mig_")
        .then(|| resource_name(key))
}

/// Returns true for the form of a resource's name in kube-state-metrics.
fn is_form_of(label: &str, resource: &str) -> bool {
    let letters = resource
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    label.chars().eq(letters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::facts::gpu::mig_gigabytes;

    #[test]
    fn names_are_restored_from_labels() {
        for name in [
            "nvidia.com/gpu",
            "nvidia.com/mig-1g.10gb",
            "nvidia.com/mig-1g.10gb.shared",
            "nvidia.com/gpu.shared",
            "gpu.intel.com/i915",
            "nvidia.com/GA102GL_A10",
            "nvidia.com/NVIDIA_A10-12Q",
            "amd.com/cpx_nps4",
            "volcano.sh/vgpu-number",
            "aliyun.com/gpu-mem",
        ] {
            let label: String = name
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
                .collect();
            assert_eq!(resource_name(&label), name);
        }
    }

    #[test]
    fn slices_are_not_whole_devices() {
        assert_eq!(mig_profile("nvidia.com/mig-1g.10gb"), Some("1g.10gb"));
        assert_eq!(mig_gigabytes("3g.40gb"), Some(40));
        for device in [
            "amd.com/gpu",
            "amd.com/cpx_nps4",
            "nvidia.com/mig-1g.10gb",
            "nvidia.com/GA102GL_A10",
            "volcano.sh/vgpu-number",
        ] {
            assert!(is_device(device), "{device}");
        }
        for share in [
            "nvidia.com/gpumem",
            "nvidia.com/gpucores",
            "aliyun.com/gpu-mem",
            "cpu",
        ] {
            assert!(!is_device(share), "{share}");
        }
    }
}
