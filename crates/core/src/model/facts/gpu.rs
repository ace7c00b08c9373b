//! Normalizes the names of GPU types that vendors, exporters and users write, and classifies
//! extended resources as whole devices, slices or shares.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A normalized GPU type: `NVIDIA-A100-SXM4-80GB`, `a100-80g` and `A100-80G` are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuType {
    model: String,
    /// Device memory in GB as sold, if the name contains it or the model has only one size.
    gigabytes: Option<u32>,
}

/// Words in product names that do not distinguish types.
pub const NOISE: [&str; 33] = [
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
    "mig",
    "vgpu",
    "gpu",
    "accelerator",
    "server",
    "edition",
    "com",
    // A virtual function of a whole device, as on Azure (`AMD_Instinct_MI300X_VF`).
    "vf",
    // GKE's name for the H100 with another network (`nvidia-h100-mega-80gb`).
    "mega",
    "ampere",
];

/// Models that are sold with only one memory size, so that `a10` equals `a10-24g`. The sizes are in
/// GB as sold, rounded from the MiB that vendors state.
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

/// Node labels and their values for common devices, as vendors and clouds set them. Used if the
/// user cannot read nodes, or if the nodes do not exist yet.
const PRODUCTS: [(&str, &str); 44] = [
    ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"),
    ("nvidia.com/gpu.product", "NVIDIA-A100-80GB-PCIe"),
    ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB"),
    ("nvidia.com/gpu.product", "NVIDIA-A100-PCIE-40GB"),
    ("nvidia.com/gpu.product", "NVIDIA-A800-SXM4-80GB"),
    ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
    ("nvidia.com/gpu.product", "NVIDIA-H100-PCIe"),
    ("nvidia.com/gpu.product", "NVIDIA-H800"),
    ("nvidia.com/gpu.product", "NVIDIA-H20"),
    ("nvidia.com/gpu.product", "NVIDIA-H200"),
    ("nvidia.com/gpu.product", "NVIDIA-B200"),
    ("nvidia.com/gpu.product", "NVIDIA-A10"),
    ("nvidia.com/gpu.product", "NVIDIA-A10G"),
    ("nvidia.com/gpu.product", "NVIDIA-A30"),
    ("nvidia.com/gpu.product", "NVIDIA-A40"),
    ("nvidia.com/gpu.product", "NVIDIA-L4"),
    ("nvidia.com/gpu.product", "NVIDIA-L20"),
    ("nvidia.com/gpu.product", "NVIDIA-L40"),
    ("nvidia.com/gpu.product", "NVIDIA-L40S"),
    ("nvidia.com/gpu.product", "Tesla-T4"),
    ("nvidia.com/gpu.product", "Tesla-V100-SXM2-32GB"),
    ("nvidia.com/gpu.product", "NVIDIA-GeForce-RTX-4090"),
    ("nvidia.com/gpu.product", "NVIDIA-GeForce-RTX-5090"),
    (
        "nvidia.com/gpu.product",
        "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
    ),
    ("amd.com/gpu.product-name", "AMD_Instinct_MI210"),
    ("amd.com/gpu.product-name", "AMD_Instinct_MI250X"),
    ("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM"),
    ("amd.com/gpu.product-name", "AMD_Instinct_MI325X"),
    ("cloud.google.com/gke-accelerator", "nvidia-tesla-t4"),
    ("cloud.google.com/gke-accelerator", "nvidia-l4"),
    ("cloud.google.com/gke-accelerator", "nvidia-tesla-a100"),
    ("cloud.google.com/gke-accelerator", "nvidia-a100-80gb"),
    ("cloud.google.com/gke-accelerator", "nvidia-h100-80gb"),
    ("cloud.google.com/gke-accelerator", "nvidia-h200-141gb"),
    ("cloud.google.com/gke-accelerator", "nvidia-b200"),
    ("cloud.google.com/gke-accelerator", "nvidia-rtx-pro-6000"),
    ("karpenter.k8s.aws/instance-gpu-name", "t4"),
    ("karpenter.k8s.aws/instance-gpu-name", "a10g"),
    ("karpenter.k8s.aws/instance-gpu-name", "l4"),
    ("karpenter.k8s.aws/instance-gpu-name", "l40s"),
    ("karpenter.k8s.aws/instance-gpu-name", "a100"),
    ("karpenter.k8s.aws/instance-gpu-name", "h100"),
    ("karpenter.k8s.aws/instance-gpu-name", "h200"),
    ("karpenter.k8s.aws/instance-gpu-name", "rtx-pro-server-6000"),
];

impl GpuType {
    /// Parses any spelling, with or without a `vendor.com/` prefix. Returns `None` if the text
    /// names no model.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text
            .rsplit_once('/')
            .map_or(text, |(_, name)| name)
            .to_ascii_lowercase();
        // With MIG's single strategy, the product label includes the profile. The GPU type is that
        // of the whole device.
        let name = name.split("-mig-").next().unwrap_or_default();
        let (mut model, mut gigabytes) = (Vec::new(), None);
        for word in name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
        {
            // The memory size follows the model, so the first word is never a size, even if it
            // resembles one (`80g`).
            if let Some(size) = memory_word(word).filter(|_| !model.is_empty()) {
                gigabytes = Some(size);
            } else if !NOISE.contains(&word) {
                model.push(word);
            }
        }
        if model.is_empty() {
            return None;
        }
        // `ada` distinguishes the RTX 6000 of 2022 from the Quadro of 2018. In other names it is
        // redundant.
        if model
            .iter()
            .any(|word| *word != "ada" && !word.bytes().all(|byte| byte.is_ascii_digit()))
        {
            model.retain(|word| *word != "ada");
        }
        // Only GPU feature discovery names the architecture of the RTX PRO series, not AWS and GKE.
        if model.contains(&"pro") {
            model.retain(|word| *word != "blackwell");
        }
        let model = model.join("-");
        // GKE's name for the A100 with 40 GB; that of the A100 with 80 GB contains the size.
        let gigabytes = gigabytes.or_else(|| (name == "nvidia-tesla-a100").then_some(40));
        // The 480 GB in the name of a GH200 are CPU memory.
        let gigabytes = gigabytes.filter(|_| model != "gh200");
        let gigabytes = gigabytes.or_else(|| {
            ONE_SIZE
                .iter()
                .find(|(name, _)| *name == model)
                .map(|(_, size)| *size)
        });
        Some(Self { model, gigabytes })
    }

    /// Returns the memory of a device in GB as sold, if known.
    pub fn gigabytes(&self) -> Option<u32> {
        self.gigabytes
    }

    /// Returns true if both names may mean the same type. A missing memory size matches any size.
    pub fn matches(&self, other: &Self) -> bool {
        self.model == other.model
            && match (self.gigabytes, other.gigabytes) {
                (Some(a), Some(b)) => a == b,
                _ => true,
            }
    }

    /// Returns the labels that nodes of this type can have, with the values that vendors and clouds
    /// set.
    pub fn known_labels(&self) -> BTreeMap<&'static str, BTreeSet<String>> {
        let mut labels: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
        for (label, value) in PRODUCTS {
            if Self::parse(value).is_some_and(|parsed| parsed.matches(self)) {
                labels.entry(label).or_default().insert(value.to_owned());
            }
        }
        labels
    }

    /// Returns the extended resource that counts devices of this type, which depends on the vendor.
    pub fn resource(&self) -> &'static str {
        // Names of AMD's Instinct models are `MI` plus a number.
        let amd = self
            .model
            .strip_prefix("mi")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if amd { "amd.com/gpu" } else { WHOLE[0] }
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

impl Serialize for GpuType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A GPU type is a string in JSON.
impl JsonSchema for GpuType {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GpuType".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for GpuType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is not a known GPU type")))
    }
}

fn memory_word(word: &str) -> Option<u32> {
    let number = word.strip_suffix("gb").or_else(|| word.strip_suffix('g'))?;
    number.parse().ok()
}

/// Node labels with the type of the node's GPUs, most reliable first.
pub const TYPE_LABELS: [&str; 8] = [
    "nvidia.com/gpu-type",
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "aliyun.accelerator/nvidia_name",
    "k8s.amazonaws.com/accelerator",
];

/// Node label with the number of shares of each device. It is 1 or absent on nodes with whole
/// devices.
pub const REPLICAS_LABEL: &str = "nvidia.com/gpu.replicas";

/// Node annotation of HAMi, which shares devices by memory. It lists the devices.
pub const HAMI_REGISTER: &str = "hami.io/node-nvidia-register";

/// Node labels with the GPU type that clouds' cluster autoscalers use to choose node groups.
pub const CLOUD_TYPE_LABELS: [&str; 3] = [
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "aliyun.accelerator/nvidia_name",
];

/// Returns true for every label that may contain a GPU type: those of vendors, and labels whose key
/// ends with `/gpu-type` or `/gpu-model`.
pub fn is_type_label(key: &str) -> bool {
    TYPE_LABELS.contains(&key) || key.ends_with("/gpu-type") || key.ends_with("/gpu-model")
}

/// Extended resources of devices. If a cluster offers several, gpuctl uses the first in this list.
/// Their units are whole devices unless `unit.rs` finds that they are shares.
///
/// Sources: the device plugins of the vendors (Ascend/mind-cluster, Cambricon's and
/// Hygon's), and Project-HAMi/HAMi (charts/hami/values.yaml).
pub const WHOLE: [&str; 16] = [
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "huawei.com/Ascend910",
    "huawei.com/Ascend310P",
    "huawei.com/Ascend310",
    "cambricon.com/mlu",
    "cambricon.com/vmlu",
    "hygon.com/dcu",
    "hygon.com/dcunum",
    "hygon.com/hcunum",
    "metax-tech.com/gpu",
    "mthreads.com/gpu",
    "mthreads.com/vgpu",
];

/// Resource of Aliyun's gpushare, which counts GPU memory in GiB.
pub const SHARED_MEMORY: &str = "aliyun.com/gpu-mem";

/// Extracts the MIG profile from a resource name: `nvidia.com/mig-1g.10gb` → `1g.10gb`.
pub fn mig_profile(resource: &str) -> Option<&str> {
    resource.strip_prefix("nvidia.com/mig-")
}

/// Extracts the memory in GB from a MIG profile: `3g.40gb` → 40.
pub fn mig_gigabytes(profile: &str) -> Option<u64> {
    let memory = profile
        .split('.')
        .find_map(|part| part.strip_suffix("gb"))?;
    memory.parse().ok()
}

#[cfg(test)]
mod tests;
