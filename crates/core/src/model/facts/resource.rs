//! Recognizes the names of extended resources that follow a pattern: devices and virtual GPUs of
//! virtual machines, AMD's partitions, and all names in the form of kube-state-metrics.

use super::gpu::{SHARED_MEMORY, WHOLE, mig_profile};

/// Resource of Volcano's vGPU plugin, which counts shares of devices.
pub const VOLCANO_SHARE: &str = "volcano.sh/vgpu-number";

/// Node annotation of Volcano's vGPU plugin, in the form of HAMi's annotation.
pub const VOLCANO_REGISTER: &str = "volcano.sh/node-vgpu-register";

/// Returns true for AMD's resources of devices with one partition, such as `amd.com/spx_nps1`,
/// which the mixed naming strategy uses.
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

/// Returns true for whole devices of virtual machines (passthrough). Besides names with a
/// model, these are the alias of NVIDIA/kubevirt-gpu-device-plugin (`P_GPU_ALIAS`) and AMD's name
/// for physical functions (ROCm/k8s-device-plugin, docs of the mixed naming strategy).
pub fn is_passthrough(resource: &str) -> bool {
    passthrough_model(resource).is_some()
        || matches!(resource, "nvidia.com/pgpu" | "amd.com/gpu_pf")
}

/// Returns true for virtual functions of devices of AMD and Intel (intel/kubevirt-gfx-sriov). A
/// device has one or several of them, and their name does not show how many.
pub(super) fn is_virtual_function(resource: &str) -> bool {
    matches!(resource, "amd.com/gpu_vf" | "intel.com/sriov-gpudevice")
}

/// Size of a virtual GPU for virtual machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualGpu<'r> {
    /// Model in the name, which can be an abbreviation.
    pub model: &'r str,
    /// Memory in GB.
    pub gigabytes: u32,
    /// Number of compute slices of the MIG instance that backs it.
    pub slices: Option<u32>,
}

/// Parses the resource of a virtual GPU. `nvidia.com/NVIDIA_A10-12Q` has 12 GB. The letter is the
/// license: compute, graphics or desktop. `nvidia.com/NVIDIA_A100-1-5CME` is backed by a MIG
/// instance with one compute slice and 5 GB. Letters such as `ME` are attributes of the instance.
///
/// Source: NVIDIA/vgpu-device-manager (pkg/types/vgpu_type.go).
pub fn virtual_gpu(resource: &str) -> Option<VirtualGpu<'_>> {
    let name = resource.strip_prefix("nvidia.com/")?;
    let (model, size) = name
        .strip_prefix("NVIDIA_")
        .or_else(|| name.strip_prefix("GRID_"))?
        .rsplit_once('-')?;
    let attributes = ["NOME", "MEALL", "ME", "GFX"];
    let plain = attributes.iter().find_map(|word| size.strip_suffix(word));
    let gigabytes = plain.unwrap_or(size).strip_suffix(['A', 'B', 'C', 'Q'])?;
    let slices = model.rsplit_once('-').and_then(|(model, slices)| {
        let slices = slices
            .parse()
            .ok()
            .filter(|count| (1..=7).contains(count))?;
        Some((model, slices))
    });
    Some(VirtualGpu {
        model: slices.map_or(model, |(model, _)| model),
        gigabytes: gigabytes.parse().ok()?,
        slices: slices.map(|(_, slices)| slices),
    })
}

/// Resources of devices that sharing systems offer as several units each, with the annotation of
/// HAMi that lists the devices. Vendors' own device plugins use other names.
const SHARED_NAMES: [(&str, &str); 4] = [
    ("cambricon.com/vmlu", "hami.io/node-mlu-register"),
    ("hygon.com/dcunum", "hami.io/node-dcu-register"),
    ("hygon.com/hcunum", "hami.io/node-hcu-register"),
    // HAMi reads the labels and the capacity of Moore Threads' nodes instead of an annotation.
    ("mthreads.com/vgpu", ""),
];

/// Returns the annotation that lists the devices of a resource that is always shared. It may be
/// empty.
pub(super) fn shared_annotation(resource: &str) -> Option<&'static str> {
    let shared = SHARED_NAMES.iter().find(|(name, _)| *name == resource);
    shared.map(|(_, annotation)| *annotation)
}

/// A resource of Huawei's Ascend devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ascend<'r> {
    /// Devices of a chip, such as `Ascend910B2`. HAMi uses these names for shares too.
    Device(&'r str),
    /// Virtual devices with this number of cores (Ascend/mind-cluster, docs of virtual instances).
    Virtual { chip: &'r str, cores: u32 },
}

/// Classifies a resource of Huawei's devices: `huawei.com/Ascend310P-4c.3cpu` has 4 cores. `None`
/// for other resources, such as `huawei.com/Ascend910B2-memory`.
pub fn ascend(resource: &str) -> Option<Ascend<'_>> {
    let name = resource.strip_prefix("huawei.com/")?;
    let (chip, size) = name.split_once('-').unwrap_or((name, ""));
    let model = chip.strip_prefix("Ascend")?;
    let is_chip = (model.starts_with("310") || model.starts_with("910"))
        && model.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let cores = size
        .split('.')
        .next()
        .and_then(|size| size.strip_suffix('c')?.parse().ok());
    match (cores, size) {
        _ if !is_chip => None,
        (Some(cores), _) => Some(Ascend::Virtual { chip, cores }),
        // HAMi's `Ascend910B4-1` is a chip.
        (None, "" | "1") => Some(Ascend::Device(name)),
        (None, _) => None,
    }
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
        || is_passthrough(resource)
        || is_virtual_function(resource)
        || virtual_gpu(resource).is_some()
        || ascend(resource).is_some()
}

/// Prefix of the extended resources that represent device classes (KEP-5004).
pub(crate) const CLASS_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";

/// First words of resources that count memory, cores or shares of GPUs: HAMi
/// (`nvidia.com/gpumem`), Aliyun (`aliyun.com/gpu-mem`), Volcano (`volcano.sh/vgpu-memory`),
/// Koordinator (`koordinator.sh/gpu-core`) and Tencent (`tencent.com/vcuda-core`).
const SHARES: [&str; 6] = ["gpu", "vgpu", "qgpu", "gpumem", "gpucores", "vcuda"];

/// Returns true for resources that count memory, cores or shares of devices. They are not numbers
/// of devices, unlike those of [`is_device`].
pub fn is_device_share(resource: &str) -> bool {
    // A DeviceClass counts devices, whatever its name is.
    if resource.starts_with(CLASS_RESOURCE) {
        return false;
    }
    let Some((domain, name)) = resource.split_once('/') else {
        return false;
    };
    let first = name.split(['-', '.', '_']).next().unwrap_or_default();
    let of_chip = || {
        let (chip, unit) = resource.rsplit_once('-').unwrap_or((resource, ""));
        matches!(unit, "memory" | "core") && ascend(chip).is_some()
    };
    // `cambricon.com/mlu.smlu.vcore` and `cambricon.com/mlu.smlu.vmemory`.
    SHARES.contains(&first) || (domain == "cambricon.com" && name.contains("smlu")) || of_chip()
}

/// Restores the name of a GPU resource from its form in kube-state-metrics, in which all characters
/// other than letters and digits are underscores. Names of other resources may be wrong.
pub(crate) fn resource_name(label: &str) -> String {
    if let Some(profile) = label.strip_prefix("nvidia_com_mig_") {
        return format!("nvidia.com/mig-{}", profile.replace('_', "."));
    }
    match label {
        "aliyun_com_gpu_mem" => return SHARED_MEMORY.to_owned(),
        "intel_com_sriov_gpudevice" => return "intel.com/sriov-gpudevice".to_owned(),
        "volcano_sh_vgpu_number" => return VOLCANO_SHARE.to_owned(),
        _ => {}
    }
    if let Some(whole) = WHOLE.iter().find(|whole| is_form_of(label, whole)) {
        return (*whole).to_owned();
    }
    if let Some(name) = label.strip_prefix("huawei_com_") {
        let (chip, size) = name.split_once('_').unwrap_or((name, ""));
        let dash = if size.is_empty() { "" } else { "-" };
        return format!("huawei.com/{chip}{dash}{}", size.replace('_', "."));
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
            // The number of compute slices of a MIG instance is between dashes too.
            match model.rsplit_once('_') {
                Some((model, slices)) if slices.len() == 1 && slices.parse::<u8>().is_ok() => {
                    format!("nvidia.com/{model}-{slices}-{size}")
                }
                _ => format!("nvidia.com/{model}-{size}"),
            }
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
            "cambricon.com/mlu",
            "huawei.com/Ascend910B4-1",
            "huawei.com/Ascend310P-4c.3cpu",
            "nvidia.com/GA102GL_A10",
            "nvidia.com/NVIDIA_A10-12Q",
            "nvidia.com/NVIDIA_A100-1-5CME",
            "nvidia.com/pgpu",
            "amd.com/gpu_vf",
            "intel.com/sriov-gpudevice",
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
            "cambricon.com/vmlu",
            "huawei.com/Ascend910-2c",
            "huawei.com/Ascend910B2",
        ] {
            assert!(is_device(device), "{device}");
        }
        for share in [
            "nvidia.com/gpumem",
            "nvidia.com/gpucores",
            "aliyun.com/gpu-mem",
            "huawei.com/Ascend910B2-memory",
            "huawei.com/Ascend910B2-core",
            "cambricon.com/mlu.smlu.vcore",
            "cpu",
        ] {
            assert!(!is_device(share), "{share}");
            assert_eq!(is_device_share(share), share != "cpu", "{share}");
        }
        for other in [
            "rdma/hca",
            "nvidia.com/hostdev",
            "memory",
            "example.com/fpga",
            "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
        ] {
            assert!(!is_device_share(other), "{other}");
        }
    }
}
