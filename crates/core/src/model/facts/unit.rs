//! Decides whether a unit of an extended resource is a whole device, an instance of a device, or a
//! share. All other modules ask here. The evidence is the name of the resource, the labels and
//! annotations of the node, the number of units, and the series of exporters.
//!
//! Sources of annotations: Project-HAMi/HAMi (pkg/device) and
//! Project-HAMi/volcano-vgpu-device-plugin.

use std::collections::BTreeMap;

use super::evidence::{
    AMD_PARTITION, COUNT, GKE_CLIENTS, GKE_PARTITION, GPU_COUNT, HAMI_ASCEND, INTEL_COUNT, MIG,
    MTHREADS_CORES, MTHREADS_CORES_PER_DEVICE, MTHREADS_COUNT, PRODUCT, REPLICAS, device_count,
    is_renamed, number,
};
use super::fractions::{core_fraction, mig_fraction};
use super::gpu::{HAMI_REGISTER, REPLICAS_LABEL, SHARED_MEMORY, WHOLE, mig_profile};
use super::node::Node;
use super::registered;
use super::resource::{
    Ascend, VOLCANO_REGISTER, VOLCANO_SHARE, VirtualGpu, ascend, is_passthrough,
    is_virtual_function, shared_annotation, virtual_gpu, whole_partition,
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
    /// Pods request memory of the devices in this annotation, which have this number of units.
    Registered {
        annotation: &'static str,
        units: u64,
    },
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
    name == SHARED || name == MEMORY || name.starts_with(VIRTUAL) || name.ends_with(RENAMED)
}

/// Returns true for the name of a slice that is a device of its own: an instance or a partition.
pub fn is_instance(name: &str) -> bool {
    (name.starts_with("mig-") && !name.ends_with(RENAMED)) || name.contains("_nps")
}

/// Suffix that NVIDIA's device plugin adds to the resource of shares if `renameByDefault` is
/// configured. Shares of MIG instances have it in node lists whether or not it is configured.
pub(super) const RENAMED: &str = ".shared";

/// Name of a GiB of the memory of a device.
const MEMORY: &str = "gpu-mem";
/// Prefix of the names of virtual GPUs.
const VIRTUAL: &str = "vgpu-";

/// Classifies one unit of `resource` on `node`. Callers that know the full capacity of the node
/// pass it, because it includes broken devices. `None` for resources other than GPUs.
pub fn unit(node: &Node, capacity: &BTreeMap<String, String>, resource: &str) -> Option<Unit> {
    let counted = capacity
        .get(resource)
        .and_then(|text| quantity::units(text))
        .unwrap_or(0);
    let units = counted.max(node.installed(resource));
    if is_renamed(resource) {
        return Some(Unit::Slice(of_renamed(node, units)));
    }
    if let Some(profile) = mig_profile(resource) {
        return Some(Unit::Slice(of_mig(node, profile, units)));
    }
    if let Some(annotation) = shared_annotation(resource) {
        return Some(of_shared_name(node, capacity, annotation, units));
    }
    if let Some(mut slice) = by_resource(resource) {
        if let SliceSize::Registered { units: counted, .. } = &mut slice.size {
            *counted = units;
        }
        return Some(Unit::Slice(slice));
    }
    if let Some(Ascend::Device(chip)) = ascend(resource) {
        let devices = registered::devices(node, &format!("{HAMI_ASCEND}{chip}")).len() as u64;
        let ratio = more_than(Some(devices).filter(|count| *count > 0), units);
        return Some(ratio.map_or(Unit::Whole, |ratio| Unit::Slice(share(Some(ratio), None))));
    }
    if whole_partition(resource) || is_passthrough(resource) {
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

/// Classifies resources whose names show that a unit is not a whole device.
pub(super) fn by_resource(resource: &str) -> Option<Slice> {
    let named = |name: &str| Slice {
        name: name.to_owned(),
        size: SliceSize::Name,
    };
    if let Some(profile) = mig_profile(resource) {
        return Some(match profile.strip_suffix(RENAMED) {
            Some(profile) => mig_share(None, profile),
            None => named(&format!("mig-{profile}")),
        });
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
            size: SliceSize::Registered {
                annotation: VOLCANO_REGISTER,
                units: 0,
            },
        });
    }
    if is_renamed(resource) || shared_annotation(resource).is_some() {
        return Some(share(None, None));
    }
    if let Some(slice) = of_virtual(resource) {
        return Some(slice);
    }
    let partition = resource.strip_prefix("amd.com/")?;
    (partition.contains("_nps") && !whole_partition(resource)).then(|| named(partition))
}

/// Classifies resources of virtual devices, for containers and for virtual machines.
fn of_virtual(resource: &str) -> Option<Slice> {
    if let Some(Ascend::Virtual { chip, cores }) = ascend(resource) {
        return Some(Slice {
            name: format!("vnpu-{}-{cores}c", chip.to_ascii_lowercase()),
            size: SliceSize::Fraction {
                ratio: core_fraction(chip, cores),
                profile: None,
            },
        });
    }
    let short = resource.rsplit('/').next().unwrap_or(resource);
    let virtual_name = || format!("{VIRTUAL}{}", short.to_ascii_lowercase());
    if let Some(VirtualGpu {
        gigabytes, slices, ..
    }) = virtual_gpu(resource)
    {
        let of_instance = |slices: u32| SliceSize::Fraction {
            ratio: Some(1.0),
            profile: Some(format!("{slices}g.{gigabytes}gb")),
        };
        return Some(Slice {
            name: virtual_name(),
            size: slices.map_or(SliceSize::Gigabytes(gigabytes), of_instance),
        });
    }
    is_virtual_function(resource).then(|| Slice {
        name: virtual_name(),
        ..share(None, None)
    })
}

/// Classifies units of a resource that only sharing systems offer, by the devices that an
/// annotation, a label or the capacity of the node counts. Without them, the size of a share is
/// unknown.
fn of_shared_name(
    node: &Node,
    capacity: &BTreeMap<String, String>,
    annotation: &str,
    units: u64,
) -> Unit {
    let registered = Some(registered::devices(node, annotation).len() as u64);
    let devices = match annotation.is_empty() {
        false => registered.filter(|count| *count > 0),
        true => number(node, MTHREADS_COUNT).or_else(|| {
            let cores = capacity
                .get(MTHREADS_CORES)
                .or_else(|| node.capacity.get(MTHREADS_CORES));
            let cores = cores.and_then(|text| quantity::units(text))?;
            Some(cores / MTHREADS_CORES_PER_DEVICE).filter(|count| *count > 0)
        }),
    };
    match devices {
        Some(devices) if units <= devices => Unit::Whole,
        _ => Unit::Slice(share(more_than(devices, units), None)),
    }
}

/// Classifies units that the device plugin renamed because they are shares. Other devices of the
/// node can be whole.
fn of_renamed(node: &Node, units: u64) -> Slice {
    let replicas = number(node, REPLICAS_LABEL).filter(|count| *count > 1);
    let by_label = replicas.map(|count| 1.0 / count as f64);
    let shared_devices =
        device_count(node).map(|count| count.saturating_sub(node.installed(WHOLE[0])));
    let by_count = || more_than(shared_devices.filter(|count| *count > 0), units);
    share(by_label.or_else(by_count), profile(node))
}

/// Classifies units of a MIG profile's resource (MIG's mixed strategy), which are shares if the
/// device plugin shares the instances. GPU feature discovery counts the instances and their
/// replicas per profile (NVIDIA/k8s-device-plugin, internal/lm/resource.go).
fn of_mig(node: &Node, profile: &str, units: u64) -> Slice {
    let (profile, is_renamed) = match profile.strip_suffix(RENAMED) {
        Some(profile) => (profile, true),
        None => (profile, false),
    };
    let resource = format!("{MIG}{profile}");
    let replicas = number(node, &format!("{resource}{REPLICAS}")).filter(|count| *count > 1);
    let by_replicas = || replicas.map(|count| 1.0 / count as f64);
    let instances = number(node, &format!("{resource}{COUNT}"));
    let ratio = match (instances, is_renamed) {
        // Instances that are not shared keep their own resource.
        (_, true) => by_replicas().or_else(|| {
            let shared = instances?.saturating_sub(node.installed(&resource));
            more_than(Some(shared).filter(|count| *count > 0), units)
        }),
        (Some(_), false) if units > 0 => more_than(instances, units),
        (_, false) => by_replicas(),
    };
    let ratio = ratio.or_else(|| more_than(most_instances(node, profile), units));
    match ratio.is_some() || is_renamed {
        true => mig_share(ratio, profile),
        false => Slice {
            name: format!("mig-{profile}"),
            size: SliceSize::Name,
        },
    }
}

/// Returns the number of instances with this profile if the node's devices have no others.
fn most_instances(node: &Node, profile: &str) -> Option<u64> {
    let devices = device_count(node)?;
    let fraction = mig_fraction(profile, node.model().as_ref())?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a device has at most seven instances"
    )]
    let per_device = (1.0 / fraction + 1e-6) as u64;
    devices.checked_mul(per_device)
}

fn mig_share(ratio: Option<f64>, profile: &str) -> Slice {
    Slice {
        name: format!("mig-{profile}{RENAMED}"),
        size: SliceSize::Fraction {
            ratio,
            profile: Some(profile.to_owned()),
        },
    }
}

/// Classifies units of NVIDIA's resource for whole devices.
fn of_nvidia(node: &Node, units: u64) -> Option<Slice> {
    if node.annotations.contains_key(HAMI_REGISTER) {
        return Some(Slice {
            name: SHARED.to_owned(),
            size: SliceSize::Registered {
                annotation: HAMI_REGISTER,
                units,
            },
        });
    }
    let profile = profile(node);
    let clients = number(node, GKE_CLIENTS).filter(|count| *count > 1);
    if let Some(clients) = clients {
        return Some(share(Some(1.0 / clients as f64), profile));
    }
    // A partitioned device has several units. With MIG's single strategy, `gpu.count` has the
    // number of instances, but labels of clouds have the number of devices.
    let devices = match &profile {
        Some(_) => number(node, GPU_COUNT),
        None => device_count(node),
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
/// from the product label. GPU feature discovery appends `-SHARED` to the product of shared
/// devices.
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

/// Returns the fraction of a device that one unit has if there are more units than devices.
fn more_than(devices: Option<u64>, units: u64) -> Option<f64> {
    devices
        .filter(|devices| units > *devices)
        .map(|devices| devices as f64 / units as f64)
}

#[cfg(test)]
mod resource_tests;
#[cfg(test)]
mod tests;
