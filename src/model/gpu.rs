//! GPU types under one name, whatever a vendor, an exporter or a person calls them, and which extended resources are
//! whole devices, slices or shares.

use std::fmt;

/// A normalised GPU type: `NVIDIA-A100-SXM4-80GB`, `a100-80g` and `A100-80G` are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuType {
    model: String,
    /// Device memory in GB as the vendor sells it, when the name tells it or the model comes in one size only.
    gigabytes: Option<u32>,
}

/// Words of product names that do not tell one type from another.
const NOISE: [&str; 31] = [
    "nvidia",
    "tesla",
    "amd",
    "instinct",
    "geforce",
    "rtx",
    "quadro",
    "graphics",
    "oam",
    "sxm",
    "sxm2",
    "sxm3",
    "sxm4",
    "sxm5",
    "sxm6",
    "pcie",
    "hbm2",
    "hbm2e",
    "hbm3",
    "hbm3e",
    "shared",
    "intel",
    "generation",
    "ada",
    "mig",
    "vgpu",
    "gpu",
    "accelerator",
    "server",
    "edition",
    "com",
];

/// Models sold in one memory size, so that `a10` is `a10-24g`. GB as sold; MiB totals behind it are the vendors'.
const ONE_SIZE: [(&str, u32); 12] = [
    ("a10", 24),
    ("a30", 24),
    ("a40", 48),
    ("l4", 24),
    ("l20", 48),
    ("l40", 48),
    ("l40s", 48),
    ("h20", 96),
    ("h200", 141),
    ("b200", 180),
    ("4090", 24),
    ("5090", 32),
];

/// Product labels of common devices, for users who may not look at the nodes.
const PRODUCTS: [&str; 22] = [
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-A100-80GB-PCIe",
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-A100-PCIE-40GB",
    "NVIDIA-A800-SXM4-80GB",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-H100-PCIe",
    "NVIDIA-H800",
    "NVIDIA-H20",
    "NVIDIA-H200",
    "NVIDIA-B200",
    "NVIDIA-A10",
    "NVIDIA-A30",
    "NVIDIA-A40",
    "NVIDIA-L4",
    "NVIDIA-L20",
    "NVIDIA-L40",
    "NVIDIA-L40S",
    "Tesla-T4",
    "Tesla-V100-SXM2-32GB",
    "NVIDIA-GeForce-RTX-4090",
    "NVIDIA-GeForce-RTX-5090",
];

impl GpuType {
    /// Reads any spelling, with or without a `vendor.com/` prefix; `None` when no letter or digit of a model is left.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.rsplit_once('/').map_or(text, |(_, name)| name).to_ascii_lowercase();
        // In MIG single mode the product label carries the profile; the type is that of the whole device.
        let name = name.split("-mig-").next().unwrap_or_default();
        let (mut model, mut gigabytes) = (Vec::new(), None);
        for word in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
            if let Some(size) = memory_word(word).filter(|_| !model.is_empty()) {
                gigabytes = Some(size);
            } else if !NOISE.contains(&word) {
                model.push(word);
            }
        }
        if model.is_empty() {
            return None;
        }
        let model = model.join("-");
        let gigabytes = gigabytes.or_else(|| ONE_SIZE.iter().find(|(name, _)| *name == model).map(|(_, size)| *size));
        Some(Self { model, gigabytes })
    }

    /// True when both may be the same device: a memory size that one of them does not tell is no difference.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.model == other.model
            && match (self.gigabytes, other.gigabytes) {
                (Some(ours), Some(theirs)) => ours == theirs,
                _ => true,
            }
    }

    /// Values of `nvidia.com/gpu.product` that known drivers report for this type.
    pub fn known_products(&self) -> impl Iterator<Item = &'static str> {
        PRODUCTS.into_iter().filter(|product| Self::parse(product).is_some_and(|known| known.matches(self)))
    }
}

impl fmt::Display for GpuType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gigabytes {
            Some(size) => write!(f, "{}-{size}g", self.model),
            None => f.write_str(&self.model),
        }
    }
}

fn memory_word(word: &str) -> Option<u32> {
    let number = word.strip_suffix("gb").or_else(|| word.strip_suffix('g'))?;
    number.parse().ok()
}

/// Node labels that tell the type of the node's GPUs, the surest first.
pub const TYPE_LABELS: [&str; 7] = [
    "nvidia.com/gpu-type",
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "aliyun.accelerator/nvidia_name",
];

/// Extended resources that count whole devices, in order of preference where a cluster offers several.
pub const WHOLE: [&str; 11] = [
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "huawei.com/Ascend910",
    "huawei.com/Ascend310P",
    "cambricon.com/vmlu",
    "hygon.com/dcunum",
    "metax-tech.com/gpu",
    "mthreads.com/vgpu",
];

/// GPU memory in GiB where Aliyun's gpushare hands out parts of devices.
pub const SHARED_MEMORY: &str = "aliyun.com/gpu-mem";

/// The MIG profile of an extended resource: `nvidia.com/mig-1g.10gb` → `1g.10gb`.
#[must_use]
pub fn mig_profile(resource: &str) -> Option<&str> {
    resource.strip_prefix("nvidia.com/mig-")
}

/// The memory of one slice of a MIG profile in GB: `3g.40gb` → 40.
#[must_use]
pub fn mig_gigabytes(profile: &str) -> Option<u64> {
    let memory = profile.split('.').find_map(|part| part.strip_suffix("gb"))?;
    memory.parse().ok()
}

/// True for every extended resource of which one unit occupies a device or a slice of one.
#[must_use]
pub fn is_device(resource: &str) -> bool {
    WHOLE.contains(&resource) || resource == "nvidia.com/gpu.shared" || mig_profile(resource).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        GpuType::parse(text).map_or_else(|| "none".to_owned(), |gpu| gpu.to_string())
    }

    #[test]
    fn one_type_many_spellings() {
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
        assert_eq!(parsed("NVIDIA"), "none");
        assert_eq!(parsed(""), "none");
    }

    #[test]
    fn an_unsaid_memory_is_no_difference() {
        let kind = |text| GpuType::parse(text).unwrap();
        assert!(kind("a100").matches(&kind("NVIDIA-A100-SXM4-80GB")));
        assert!(kind("a10").matches(&kind("a10-24g")));
        assert!(!kind("a100-40g").matches(&kind("NVIDIA-A100-SXM4-80GB")));
        assert!(!kind("a10").matches(&kind("a100")));
        assert!(kind("t4-16g").matches(&kind("Tesla-T4")));
    }

    #[test]
    fn slices_are_not_whole_devices() {
        assert_eq!(mig_profile("nvidia.com/mig-1g.10gb"), Some("1g.10gb"));
        assert_eq!(mig_gigabytes("3g.40gb"), Some(40));
        assert!(is_device("amd.com/gpu") && is_device("nvidia.com/mig-1g.10gb"));
        for share in ["nvidia.com/gpumem", "nvidia.com/gpucores", "aliyun.com/gpu-mem", "cpu"] {
            assert!(!is_device(share), "{share}");
        }
    }
}
