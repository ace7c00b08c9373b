//! A node with its resources and health. This module decides whether one unit of a resource is a
//! device, a slice or a share; other modules must not.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::condition::{HostCondition, words};
use super::gpu::{HAMI_REGISTER, REPLICAS_LABEL, SHARED_MEMORY, WHOLE, mig_profile};
use crate::model::Node;
use crate::model::values::quantity;

/// A node with the details for counting its devices.
#[derive(Clone, Debug, Default)]
pub struct NodeDetails {
    pub node: Node,
    /// Amounts of all resources, including extended resources, as the kubelet reports them.
    pub capacity: BTreeMap<String, String>,
    /// Amounts that pods can request: the capacity without what is reserved for the system.
    pub allocatable: BTreeMap<String, String>,
    pub conditions: Vec<HostCondition>,
    /// Host names and addresses of the node.
    pub addresses: Vec<String>,
    pub created_at: Option<Timestamp>,
    pub kernel: String,
    pub os_image: String,
    /// Time of the last change of each label, if the API server recorded it.
    pub labels_written: BTreeMap<String, Timestamp>,
    /// True if the node comes from a published copy, which does not include the current health.
    pub published: bool,
}

/// A node condition reported by the kubelet or a problem detector.
#[derive(Clone, Debug, Default)]
pub struct HostCondition {
    pub kind: String,
    /// Status of the condition: `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
    pub message: String,
    pub heartbeat_at: Option<Timestamp>,
}

/// Health of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum NodeHealth {
    Active,
    /// The node is healthy but cordoned, so it accepts no new pods.
    Maintaining,
    Faulty,
    /// The user cannot read the node.
    Unknown,
}

impl NodeHealth {
    pub const ALL: [Self; 3] = [Self::Active, Self::Maintaining, Self::Faulty];

    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Returns the health as it appears in JSON, or `None` if it is unknown.
    pub fn known_word(self) -> Option<&'static str> {
        Some(self.word()).filter(|_| self != Self::Unknown)
    }
}

/// Classification of one unit of a device resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    Whole,
    Slice(String),
}

/// Classifies one unit of `resource` on `node`, or returns `None` if the resource does not count
/// GPUs. Sharing multiplies the units that a node advertises, so a unit of a shared GPU is a share
/// and not a device.
pub fn unit(node: &Node, resource: &str) -> Option<Unit> {
    let slice = |name: &str| Some(Unit::Slice(name.to_owned()));
    if let Some(profile) = mig_profile(resource) {
        return slice(&format!("mig-{profile}"));
    }
    if resource == SHARED_MEMORY {
        return slice("gpu-mem");
    }
    // NVIDIA's device plugin renames shares if `renameByDefault` is configured.
    if resource.ends_with("/gpu.shared") {
        return slice("gpu.shared");
    }
    // AMD's partitions, such as `amd.com/cpx_nps4`.
    if let Some(partition) = resource
        .strip_prefix("amd.com/")
        .filter(|name| name.contains("_nps"))
    {
        return slice(partition);
    }
    if !WHOLE.contains(&resource) {
        return None;
    }
    let replicas = node
        .labels
        .get(REPLICAS_LABEL)
        .and_then(|text| text.parse::<u32>().ok());
    // Without `renameByDefault`, shares have the resource name of whole devices.
    let shared = resource == WHOLE[0]
        && (replicas.is_some_and(|replicas| replicas > 1)
            || node.annotations.contains_key(HAMI_REGISTER));
    if shared {
        return slice("gpu.shared");
    }
    // With MIG's single strategy, only the product label shows that units are slices.
    let product = node
        .labels
        .get("nvidia.com/gpu.product")
        .filter(|_| resource == WHOLE[0]);
    match product.and_then(|product| product.split_once("-MIG-")) {
        // GPU feature discovery appends `-SHARED` to the product of shared devices.
        Some((_, profile)) => slice(&format!("mig-{}", profile.trim_end_matches("-SHARED"))),
        None => Some(Unit::Whole),
    }
}

/// Returns the health of a node, and the reason if it is not active.
pub(crate) fn health(host: &NodeDetails) -> (NodeHealth, Option<String>) {
    if host.published {
        return (NodeHealth::Unknown, None);
    }
    let broken = host
        .conditions
        .iter()
        .find_map(HostCondition::fault)
        .or_else(|| taint_fault(host))
        .or_else(|| missing_devices(host));
    match broken {
        Some(reason) => (NodeHealth::Faulty, Some(reason)),
        None if !host.node.schedulable => (NodeHealth::Maintaining, Some("cordoned".to_owned())),
        None => (NodeHealth::Active, None),
    }
}

fn condition_fault(condition: &HostCondition) -> Option<String> {
    const PRESSURE: [&str; 4] = [
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
        "NetworkUnavailable",
    ];
    const DEVICES: [&str; 7] = [
        "gpu",
        "gpus",
        "xid",
        "nvlink",
        "nvswitch",
        "accelerated",
        "accelerator",
    ];
    const WELL: [&str; 7] = [
        "healthy",
        "ready",
        "present",
        "available",
        "installed",
        "configured",
        "ok",
    ];
    let kind = condition.kind.as_str();
    let words = words(kind);
    let of_gpus = words.iter().any(|word| DEVICES.contains(&word.as_str()));
    // Problem detectors report a fault as a true condition, such as `GpuXidError`. Managed node
    // groups report a fault as a false condition, such as `GPUHealthy` or EKS'
    // `AcceleratedHardwareReady`.
    let is_good = words
        .last()
        .is_some_and(|word| WELL.contains(&word.as_str()));
    match condition.status.as_str() {
        "True" if PRESSURE.contains(&kind) => Some(kind.to_owned()),
        "True" if of_gpus && !is_good => Some(kind.to_owned()),
        "False" if of_gpus && is_good => Some(format!("not {kind}")),
        // The node controller sets `Unknown` when the kubelet stops reporting.
        "False" | "Unknown" if kind == "Ready" => Some("NotReady".to_owned()),
        _ => None,
    }
}

/// Returns the key of a taint that marks the node as broken. Taints that dedicate a node to GPUs do
/// not match.
fn taint_fault(host: &NodeDetails) -> Option<String> {
    const WORDS: [&str; 10] = [
        "unhealthy",
        "error",
        "errors",
        "fault",
        "faults",
        "faulty",
        "xid",
        "unreachable",
        "quarantine",
        "quarantined",
    ];
    let bad = host.node.taints.iter().find(|taint| {
        words(&taint.key)
            .iter()
            .any(|word| WORDS.contains(&word.as_str()))
    });
    bad.map(|taint| taint.key.clone())
}

/// Splits a key or CamelCase name into lower-case words: `GPUHealthy` becomes `gpu` and `healthy`.
/// Whole words prevent false matches, such as `fault` in `default`.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let letters: Vec<char> = text.chars().collect();
    for (place, letter) in letters.iter().enumerate() {
        let before = place.checked_sub(1).map(|place| letters[place]);
        let next_is_lower = letters.get(place + 1).is_some_and(char::is_ascii_lowercase);
        // A capital starts a word after a lower-case letter, or before one, as the `H` in
        // `GPUHealthy`.
        let begins = letter.is_ascii_uppercase()
            && before.is_some_and(|before| !before.is_ascii_uppercase() || next_is_lower);
        if (begins || !letter.is_ascii_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_ascii_alphanumeric() {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// Describes a device resource whose allocatable amount is below the capacity, because the kubelet
/// considers some devices unhealthy.
fn missing_devices(host: &NodeDetails) -> Option<String> {
    let LostDevices {
        resource,
        usable,
        all,
    } = host.lost_devices()?;
    Some(format!("{usable} of {all} {resource} usable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faulty_nodes_have_a_reason_and_cordoned_nodes_are_healthy() {
        let well = || {
            let resources = BTreeMap::from([("nvidia.com/gpu".to_owned(), "8".to_owned())]);
            let node = Node {
                name: "a".into(),
                schedulable: true,
                ..Node::default()
            };
            NodeDetails {
                node,
                capacity: resources.clone(),
                allocatable: resources,
                ..NodeDetails::default()
            }
        };
        let word = |host: NodeDetails| {
            let (health, reason) = health(&host);
            format!("{} {}", health.word(), reason.unwrap_or_default())
                .trim()
                .to_owned()
        };
        let condition = |kind: &str, status: &str| HostCondition {
            kind: kind.into(),
            status: status.into(),
            ..HostCondition::default()
        };
        let with = |conditions: Vec<HostCondition>| NodeDetails {
            conditions,
            ..well()
        };
        assert_eq!(word(well()), "active");
        assert_eq!(
            word(with(vec![condition("Ready", "Unknown")])),
            "faulty NotReady"
        );
        assert_eq!(
            word(with(vec![
                condition("Ready", "True"),
                condition("DiskPressure", "True")
            ])),
            "faulty DiskPressure"
        );
        assert_eq!(
            word(with(vec![
                condition("GpuXidError", "True"),
                condition("GPUHealthy", "True")
            ])),
            "faulty GpuXidError"
        );
        let mut cordoned = well();
        cordoned.node.schedulable = false;
        assert_eq!(word(cordoned), "maintaining cordoned");
        let mut lost = well();
        lost.allocatable.insert("nvidia.com/gpu".into(), "7".into());
        assert_eq!(word(lost), "faulty 7 of 8 nvidia.com/gpu usable");
        let taint = |key: &str| crate::model::Taint {
            key: key.into(),
            value: None,
            effect: "NoSchedule".into(),
        };
        let mut dedicated = well();
        dedicated.node.taints.push(taint("nvidia.com/gpu"));
        assert_eq!(word(dedicated), "active");
        let mut condemned = well();
        condemned
            .node
            .taints
            .push(taint("nvidia.com/gpu-unhealthy"));
        assert_eq!(word(condemned), "faulty nvidia.com/gpu-unhealthy");
        let mut default_reason = well();
        default_reason
            .node
            .taints
            .push(taint("example.com/default-gpu-pool"));
        assert_eq!(word(default_reason), "active", "`default` is no fault");
    }
}
