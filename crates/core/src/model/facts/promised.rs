//! The number of devices that a node's labels promise while its device plugin does not run.

use std::collections::BTreeMap;

use super::evidence::{GKE_CLIENTS, GKE_COUNT, GKE_PARTITION, GPU_COUNT, INTEL_COUNT, number};
use super::gpu::{HAMI_REGISTER, REPLICAS_LABEL};
use super::node::Node;
use super::unit::unit;
use crate::model::values::quantity;

/// Derives the number of units from labels if the kubelet reports a capacity of 0. Some minutes
/// after a device plugin ends, the kubelet sets capacity and allocatable to 0 (kubernetes,
/// pkg/kubelet/cm/devicemanager/manager.go, `GetCapacity`), but the labels remain. `None` if the
/// resource is missing, if other units of the node explain the 0, or without a label.
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

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: &str = "nvidia.com/gpu";

    #[test]
    fn labels_promise_units_of_a_dead_device_plugin() {
        let count = |number| ("nvidia.com/gpu.count", number);
        let replicas = |number| (REPLICAS_LABEL, number);
        let promised = |labels: &[(&str, &str)], capacity: &[(&str, &str)]| {
            let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let node = Node {
                labels: labels.iter().map(text).collect(),
                ..Node::default()
            };
            let text = |(name, amount): &(&str, &str)| ((*name).to_owned(), (*amount).to_owned());
            promised_units(&node, &capacity.iter().map(text).collect(), GPU)
        };
        let zero = (GPU, "0");
        assert_eq!(promised(&[count("8")], &[zero]), Some(8));
        // 8 boards with 4 shares each.
        assert_eq!(promised(&[count("8"), replicas("4")], &[zero]), Some(32));
        let single = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb");
        assert_eq!(promised(&[single, count("56")], &[zero]), Some(56));
        let gke = ("cloud.google.com/gke-accelerator-count", "4");
        assert_eq!(promised(&[gke], &[zero]), Some(4));
        // The number of instances per board is unknown.
        let parts = ("cloud.google.com/gke-gpu-partition-size", "1g.5gb");
        assert_eq!(promised(&[gke, parts], &[zero]), None);
        // All boards are partitioned (MIG's mixed strategy), or shares are renamed.
        let instances = ("nvidia.com/mig-1g.5gb", "56");
        assert_eq!(promised(&[count("8")], &[zero, instances]), None);
        let renamed = ("nvidia.com/gpu.shared", "16");
        assert_eq!(promised(&[count("8")], &[zero, renamed]), None);
        assert_eq!(promised(&[count("8")], &[(GPU, "7")]), None);
        assert_eq!(promised(&[count("8")], &[]), None, "no plugin has started");
        assert_eq!(promised(&[], &[zero]), None);
    }
}
