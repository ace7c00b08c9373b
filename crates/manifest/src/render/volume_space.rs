//! Compares the size of volumes that do not exist yet with the free space that drivers report.
//!
//! Source: `hasEnoughCapacity` of the scheduler plugin `VolumeBinding` (Kubernetes 1.36).

use std::collections::BTreeMap;

use k8s_openapi::api::storage::v1::CSIStorageCapacity;

use super::volume_matching::selects;
use gpuctl_core::model::values::quantity;

/// Whether a storage system that a node with these labels reaches has space for a volume of `size`
/// thousandths of a byte. `capacities` are those of the volume's class.
pub(super) fn has_space(
    capacities: &[CSIStorageCapacity],
    size: i128,
    labels: &BTreeMap<String, String>,
) -> bool {
    let is_enough = |capacity: &CSIStorageCapacity| {
        // The largest volume is more precise than the free space, which may be fragmented.
        let limit = capacity
            .maximum_volume_size
            .as_ref()
            .or(capacity.capacity.as_ref());
        let limit = limit.and_then(|limit| quantity::milli(&limit.0));
        limit.is_some_and(|limit| limit >= size)
    };
    // A capacity without a topology is of no node; an empty topology is of all nodes.
    let is_reached = |capacity: &CSIStorageCapacity| {
        let topology = capacity.node_topology.as_ref();
        topology.is_some_and(|topology| selects(topology, labels))
    };
    size == 0
        || capacities
            .iter()
            .any(|capacity| is_enough(capacity) && is_reached(capacity))
}
