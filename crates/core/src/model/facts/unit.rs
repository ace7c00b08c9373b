//! Decides whether a unit of an extended resource is a whole device, an instance of a device, or a
//! share. All other modules ask here. The evidence is the name of the resource, the labels and
//! annotations of the node, the number of units, and the series of exporters.
//!
//! Sources of labels: NVIDIA/k8s-device-plugin (docs of GPU feature discovery), GKE's documentation
//! of time-sharing and of multi-instance GPUs, ROCm/k8s-device-plugin (docs of the node labeller),
//! intel/intel-device-plugins-for-kubernetes (cmd/gpu_plugin/labels.md). Sources of annotations:
//! Project-HAMi/HAMi (pkg/device) and Project-HAMi/volcano-vgpu-device-plugin.

use std::collections::BTreeMap;

use super::gpu::{HAMI_REGISTER, REPLICAS_LABEL, SHARED_MEMORY, WHOLE, mig_profile};
use super::node::Node;
use super::resource::{
    VOLCANO_REGISTER, VOLCANO_SHARE, passthrough_model, virtual_gpu, whole_partition,
};
use crate::model::values::quantity;

/// The kind of one unit of a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Unit {
    Whole,
    Slice(Slice),
}

/// A part or a share of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Name in node lists, such as `mig-1g.10gb`, `cpx_nps4`, `gpu.shared` or `gpu-mem`.
    pub name: String,
    pub(super) size: SliceSize,
}

/// Evidence about the size of a slice.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SliceSize {
    /// The name of the slice contains the profile or the partitioning mode.
    Name,
    /// One GiB of memory.
    Gibibyte,
    /// Pods request memory of the devices in this annotation.
    Registered(&'static str),
    /// A virtual GPU with this memory in GB.
    Gigabytes(u32),
    /// A fraction of a device, or of an instance with this MIG profile.
    Fraction {
        ratio: Option<f64>,
        profile: Option<String>,
    },
}

/// Name of a share of a device or instance.
pub const SHARED: &str = "gpu.shared";

/// Returns true for the name of a slice that exporters do not measure separately.
pub fn is_share(name: &str) -> bool {
    name == SHARED || name == MEMORY || name.starts_with(VIRTUAL)
}

/// Returns true for the name of a slice that is a device of its own: an instance or a partition.
pub fn is_instance(name: &str) -> bool {
    name.starts_with("mig-") || name.contains("_nps")
}

/// Name of a GiB of the memory of a device.
const MEMORY: &str = "gpu-mem";
/// Prefix of the names of virtual GPUs.
const VIRTUAL: &str = "vgpu-";

/// Labels whose values are evidence, in the order of their checks.
pub const EVIDENCE_LABELS: [&str; 8] = [
    PRODUCT,
    REPLICAS_LABEL,
    GPU_COUNT,
    GKE_CLIENTS,
    GKE_PARTITION,
    GKE_COUNT,
    AMD_PARTITION,
    INTEL_COUNT,
];

const PRODUCT: &str = "nvidia.com/gpu.product";
/// Number of devices, or of instances with MIG's single strategy.
const GPU_COUNT: &str = "nvidia.com/gpu.count";
const GKE_CLIENTS: &str = "cloud.google.com/gke-max-shared-clients-per-gpu";
const GKE_PARTITION: &str = "cloud.google.com/gke-gpu-partition-size";
const GKE_COUNT: &str = "cloud.google.com/gke-accelerator-count";
/// Modes of all devices of a node, such as `dpx_nps1`.
const AMD_PARTITION: &str = "amd.com/compute-memory-partition";
const INTEL_COUNT: &str = "gpu.intel.com/device.count";

/// Classifies one unit of `resource` on `node`. Callers that know the full capacity of the node pass
/// it, because it includes broken devices. `None` for resources other than GPUs.
pub fn unit(node: &Node, capacity: &BTreeMap<String, String>, resource: &str) -> Option<Unit> {
    let counted = capacity
        .get(resource)
        .and_then(|text| quantity::units(text))
        .unwrap_or(0);
    let units = counted.max(node.installed(resource));
    if is_renamed(resource) {
        return Some(Unit::Slice(of_renamed(node, units)));
    }
    if let Some(slice) = by_resource(resource) {
        return Some(Unit::Slice(slice));
    }
    if whole_partition(resource) || passthrough_model(resource).is_some() {
        return Some(Unit::Whole);
    }
    if !WHOLE.contains(&resource) {
        return None;
    }
    let slice = match resource {
        "nvidia.com/gpu" => of_nvidia(node, units),
        "amd.com/gpu" => of_amd(node),
        "gpu.intel.com/i915" | "gpu.intel.com/xe" => {
            more_than(number(node, INTEL_COUNT), units).map(|ratio| share(Some(ratio), None))
        }
        _ => None,
    };
    Some(slice.map_or(Unit::Whole, Unit::Slice))
}

/// Derives the number of units from labels if the kubelet reports a capacity of 0. Some minutes after a device plugin ends, the kubelet sets capacity and allocatable
/// to 0 (kubernetes, pkg/kubelet/cm/devicemanager/manager.go, `GetCapacity`), but the labels remain.
/// `None` if the resource is missing, if other units of the node explain the 0, or without a label.
pub(super) fn promised_units(
    node: &Node,
    capacity: &BTreeMap<String, String>,
    resource: &str,
) -> Option<u64> {
    // Instances and renamed shares replace whole devices.
    let is_replaced = capacity.iter().any(|(other, amount)| {
        quantity::units(amount).is_some_and(|units| units > 0)
            && unit(node, capacity, other).is_some()
    });
    if is_replaced || quantity::units(capacity.get(resource)?)? > 0 {
        return None;
    }
    match resource {
        // HAMi's units are neither devices nor replicas.
        "nvidia.com/gpu" if !node.annotations.contains_key(HAMI_REGISTER) => {
            let by_gke = || number(node, GKE_COUNT).filter(|_| !has_gke_partition(node));
            let shares = number(node, REPLICAS_LABEL)
                .into_iter()
                .chain(number(node, GKE_CLIENTS))
                .max()
                .unwrap_or(1);
            // The label counts boards, or instances with MIG's single strategy. Both are shared.
            number(node, GPU_COUNT).or_else(by_gke)?.checked_mul(shares)
        }
        "gpu.intel.com/i915" | "gpu.intel.com/xe" => number(node, INTEL_COUNT),
        _ => None,
    }
}

/// Returns true if GKE partitions the devices of a node. Its count is that of the devices then.
fn has_gke_partition(node: &Node) -> bool {
    node.labels
        .get(GKE_PARTITION)
        .is_some_and(|profile| !profile.is_empty())
}

/// Classifies resources whose names show that a unit is not a whole device.
pub(super) fn by_resource(resource: &str) -> Option<Slice> {
    let named = |name: &str| Slice {
        name: name.to_owned(),
        size: SliceSize::Name,
    };
    if let Some(profile) = mig_profile(resource) {
        return Some(named(&format!("mig-{profile}")));
    }
    if resource == SHARED_MEMORY {
        return Some(Slice {
            name: MEMORY.to_owned(),
            size: SliceSize::Gibibyte,
        });
    }
    if resource == VOLCANO_SHARE {
        return Some(Slice {
            name: SHARED.to_owned(),
            size: SliceSize::Registered(VOLCANO_REGISTER),
        });
    }
    if is_renamed(resource) {
        return Some(share(None, None));
    }
    if let Some(gigabytes) = virtual_gpu(resource) {
        let name = resource.rsplit('/').next().unwrap_or(resource);
        return Some(Slice {
            name: format!("{VIRTUAL}{}", name.to_ascii_lowercase()),
            size: SliceSize::Gigabytes(gigabytes),
        });
    }
    let partition = resource.strip_prefix("amd.com/")?;
    (partition.contains("_nps") && !whole_partition(resource)).then(|| named(partition))
}

/// Returns true for the name that NVIDIA's device plugin gives shares if `renameByDefault` is
/// configured.
fn is_renamed(resource: &str) -> bool {
    resource.ends_with("/gpu.shared")
}

/// Classifies units that the device plugin renamed because they are shares. Other devices of the
/// node can be whole.
fn of_renamed(node: &Node, units: u64) -> Slice {
    let replicas = number(node, REPLICAS_LABEL).filter(|count| *count > 1);
    let by_label = replicas.map(|count| 1.0 / count as f64);
    let shared_devices =
        number(node, GPU_COUNT).map(|count| count.saturating_sub(node.installed(WHOLE[0])));
    let by_count = || more_than(shared_devices.filter(|count| *count > 0), units);
    share(by_label.or_else(by_count), profile(node))
}

/// Classifies units of NVIDIA's resource for whole devices.
fn of_nvidia(node: &Node, units: u64) -> Option<Slice> {
    if node.annotations.contains_key(HAMI_REGISTER) {
        return Some(Slice {
            name: SHARED.to_owned(),
            size: SliceSize::Registered(HAMI_REGISTER),
        });
    }
    let profile = profile(node);
    let clients = number(node, GKE_CLIENTS).filter(|count| *count > 1);
    if let Some(clients) = clients {
        return Some(share(Some(1.0 / clients as f64), profile));
    }
    // A partitioned device has several units. With MIG's single strategy, `gpu.count` has the
    // number of instances, but GKE's label has the number of devices.
    let devices = match &profile {
        Some(_) => number(node, GPU_COUNT),
        None => number(node, GPU_COUNT).or_else(|| number(node, GKE_COUNT)),
    };
    // The units cannot be whole devices if there are more of them (NVIDIA/k8s-device-plugin#732,
    // where the label of the replicas is 1). If there are not, the device plugin shares nothing.
    let replicas = number(node, REPLICAS_LABEL).filter(|count| *count > 1);
    let ratio = match devices.filter(|_| units > 0) {
        Some(_) => more_than(devices, units),
        None => replicas.map(|count| 1.0 / count as f64),
    };
    match (ratio, profile) {
        (Some(ratio), profile) => Some(share(Some(ratio), profile)),
        (None, Some(profile)) => Some(Slice {
            name: format!("mig-{profile}"),
            size: SliceSize::Name,
        }),
        (None, None) => None,
    }
}

/// Classifies units of AMD's resource for whole devices. With the single naming strategy, it counts
/// partitions too.
fn of_amd(node: &Node) -> Option<Slice> {
    let modes = node.labels.get(AMD_PARTITION)?.to_ascii_lowercase();
    let is_cut = modes.contains("_nps") && !modes.starts_with("spx");
    is_cut.then_some(Slice {
        name: modes,
        size: SliceSize::Name,
    })
}

/// Returns the MIG profile of all units of a node: from GKE's label or, with MIG's single strategy,
/// from the product label. GPU feature discovery appends `-SHARED` to the product of shared devices.
fn profile(node: &Node) -> Option<String> {
    let by_product = || {
        let (_, profile) = node.labels.get(PRODUCT)?.split_once("-MIG-")?;
        Some(profile.trim_end_matches("-SHARED").to_owned())
    };
    node.labels
        .get(GKE_PARTITION)
        .filter(|profile| !profile.is_empty())
        .cloned()
        .or_else(by_product)
}

fn share(ratio: Option<f64>, profile: Option<String>) -> Slice {
    Slice {
        name: SHARED.to_owned(),
        size: SliceSize::Fraction { ratio, profile },
    }
}

fn number(node: &Node, label: &str) -> Option<u64> {
    node.labels
        .get(label)
        .and_then(|text| text.parse().ok())
        .filter(|count| *count > 0)
}

/// Returns the fraction of a device that one unit has if there are more units than devices.
fn more_than(devices: Option<u64>, units: u64) -> Option<f64> {
    devices
        .filter(|devices| units > *devices)
        .map(|devices| devices as f64 / units as f64)
}

#[cfg(test)]
mod tests;
