//! The number of devices that a node's labels promise while its device plugin does not run.

use std::collections::BTreeMap;

use super::evidence::{
    COUNT, GKE_CLIENTS, GKE_COUNT, GKE_PARTITION, GPU_COUNT, INTEL_COUNT, MIG, REPLICAS, number,
};
use super::gpu::{HAMI_REGISTER, REPLICAS_LABEL, mig_profile};
use super::node::Node;
use super::unit::{RENAMED, unit};
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
    if let Some(profile) = mig_profile(resource) {
        return promised_instances(node, capacity, profile);
    }
    match resource {
        // The label counts all boards, and those with instances offer no whole devices.
        "nvidia.com/gpu" if has_mixed_boards(node) => None,
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

/// Derives the number of instances or of their shares with MIG's mixed strategy. GPU feature
/// discovery counts the instances of each profile, and their replicas (NVIDIA/k8s-device-plugin,
/// internal/lm/resource.go).
fn promised_instances(
    node: &Node,
    capacity: &BTreeMap<String, String>,
    profile: &str,
) -> Option<u64> {
    let base = profile.strip_suffix(RENAMED);
    // Only one of two resources can have the instances.
    if base.is_some_and(|base| capacity.contains_key(&format!("{MIG}{base}"))) {
        return None;
    }
    let labeled = |suffix| {
        let profile = base.unwrap_or(profile);
        number(node, &format!("{MIG}{profile}{suffix}"))
    };
    labeled(COUNT)?.checked_mul(labeled(REPLICAS).unwrap_or(1))
}

/// Returns true if boards of the node have MIG enabled with the mixed strategy. Without instances,
/// they show only in the replicas, which are 0 if no board is whole (NVIDIA/k8s-device-plugin,
/// internal/lm/nvml.go, `newGPULabelers`).
fn has_mixed_boards(node: &Node) -> bool {
    let has_value = |label: &str, value: &str| node.labels.get(label).is_some_and(|it| it == value);
    let mut labels = node.labels.keys();
    labels.any(|key| key.starts_with(MIG) && key.ends_with(COUNT) && number(node, key).is_some())
        || (has_value(MIG_STRATEGY, "mixed") && has_value(REPLICAS_LABEL, "0"))
}

/// Returns true if GKE partitions the devices of a node. Its count is that of the devices then.
fn has_gke_partition(node: &Node) -> bool {
    node.labels
        .get(GKE_PARTITION)
        .is_some_and(|profile| !profile.is_empty())
}

/// How the device plugin names instances: `none`, `single` or `mixed`.
const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: &str = "nvidia.com/gpu";

    fn promised(labels: &[(&str, &str)], capacity: &[(&str, &str)], resource: &str) -> Option<u64> {
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let node = Node {
            labels: labels.iter().map(text).collect(),
            ..Node::default()
        };
        promised_units(&node, &capacity.iter().map(text).collect(), resource)
    }

    #[test]
    fn labels_promise_units_of_a_dead_device_plugin() {
        let count = |number| ("nvidia.com/gpu.count", number);
        let replicas = |number| (REPLICAS_LABEL, number);
        let promised =
            |labels: &[(&str, &str)], capacity: &[(&str, &str)]| promised(labels, capacity, GPU);
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

    #[test]
    fn labels_promise_instances_of_the_mixed_strategy_and_no_whole_boards() {
        const SMALL: &str = "nvidia.com/mig-1g.5gb";
        const LARGE: &str = "nvidia.com/mig-3g.20gb";
        let boards = ("nvidia.com/gpu.count", "8");
        let (small, large) = (
            ("nvidia.com/mig-1g.5gb.count", "28"),
            ("nvidia.com/mig-3g.20gb.count", "8"),
        );
        // Four boards have 7 instances each, and four have two. The plugin ended.
        let labels = [boards, small, large];
        let zeros = [(GPU, "0"), (SMALL, "0"), (LARGE, "0")];
        let of = |resource| promised(&labels, &zeros, resource);
        assert_eq!((of(SMALL), of(LARGE), of(GPU)), (Some(28), Some(8), None));
        // Boards without instances may be whole, but the labels do not count them.
        assert_eq!(promised(&[boards, large], &[(GPU, "0")], GPU), None);
        let empty = [
            boards,
            ("nvidia.com/mig.strategy", "mixed"),
            (REPLICAS_LABEL, "0"),
        ];
        assert_eq!(promised(&empty, &[(GPU, "0")], GPU), None, "no instances");
        assert_eq!(promised(&empty[..2], &[(GPU, "0")], GPU), Some(8), "whole");

        let shared = [boards, small, ("nvidia.com/mig-1g.5gb.replicas", "2")];
        let renamed = "nvidia.com/mig-1g.5gb.shared";
        let of = |capacity: &[(&str, &str)], resource| promised(&shared, capacity, resource);
        assert_eq!(of(&[(SMALL, "0")], SMALL), Some(56));
        assert_eq!(of(&[(renamed, "0")], renamed), Some(56));
        let both = [(SMALL, "0"), (renamed, "0")];
        assert_eq!((of(&both, SMALL), of(&both, renamed)), (Some(56), None));

        // The plugin runs, and no board has this profile any more.
        let running = [(SMALL, "0"), (LARGE, "8")];
        assert_eq!(promised(&[boards, large], &running, SMALL), None);
        assert_eq!(promised(&[boards, large], &[(SMALL, "0")], SMALL), None);
    }
}
