//! A node with the details that the inventory needs, such as its resources and its health.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::condition::{HostCondition, words};
use super::promised::promised_units;
use super::unit::unit;
use crate::model::Node;
use crate::model::values::quantity;
use crate::model::values::units::MOST_PER_NODE;

/// A node with the details that the inventory needs.
#[derive(Clone, Debug, Default)]
pub struct NodeDetails {
    pub node: Node,
    /// Amounts of all resources as the kubelet reports them, including extended resources.
    pub capacity: BTreeMap<String, String>,
    /// The amounts that pods can request: the capacity minus what is reserved for the system.
    pub allocatable: BTreeMap<String, String>,
    pub conditions: Vec<HostCondition>,
    /// Its host names and addresses.
    pub addresses: Vec<String>,
    pub created_at: Option<Timestamp>,
    pub kernel: String,
    pub os_image: String,
    /// When each label was last written, if the API server recorded the time.
    pub labels_written: BTreeMap<String, Timestamp>,
    /// True if a DRA driver offers devices of the node, or if the user cannot see whether one does.
    /// Such a driver may replace a device plugin.
    pub may_be_claimed: bool,
    /// True if the details come from a published copy, which does not include the current health.
    pub published: bool,
}

/// The health of a node, in the terms of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum NodeHealth {
    Active,
    /// The node is healthy, but it is cordoned and accepts no new pods.
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

    /// The term in the contract, or `None` if the health is unknown.
    pub fn known_word(self) -> Option<&'static str> {
        Some(self.word()).filter(|_| self != Self::Unknown)
    }
}

/// Determines the health of a node, with the reason if it is not active.
pub(crate) fn health(host: &NodeDetails) -> (NodeHealth, Option<String>) {
    if host.published {
        return (NodeHealth::Unknown, None);
    }
    let broken = host
        .conditions
        .iter()
        .find_map(HostCondition::fault)
        .or_else(|| taint_fault(host))
        .or_else(|| host.lost_devices().map(|lost| lost.summary()));
    match broken {
        Some(reason) => (NodeHealth::Faulty, Some(reason)),
        None if !host.node.schedulable => (NodeHealth::Maintaining, Some("cordoned".to_owned())),
        None => (NodeHealth::Active, None),
    }
}

/// Finds a taint that marks a node as broken. A vendor's taint that dedicates the node does not
/// count.
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

/// A resource of which the kubelet took devices out of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostDevices {
    pub resource: String,
    /// Number of devices that pods can still request.
    pub usable: u64,
    /// Number of devices that the node has.
    pub all: u64,
}

impl NodeDetails {
    /// Returns the number of units of a resource that the node has, healthy or not. `None` if its
    /// amounts are missing. Published copies do not include the capacity.
    pub(crate) fn installed_units(&self, resource: &str) -> Option<u64> {
        let amount = |map: &BTreeMap<String, String>| {
            map.get(resource).and_then(|text| quantity::whole(text))
        };
        let promised =
            promised_units(&self.node, &self.capacity, resource).filter(|_| !self.may_be_claimed);
        amount(&self.capacity)
            .max(amount(&self.allocatable))
            .max(promised)
    }

    /// Returns the first resource of which fewer devices are allocatable than the node has.
    pub fn lost_devices(&self) -> Option<LostDevices> {
        self.capacity
            .keys()
            .filter(|resource| unit(&self.node, &self.capacity, resource).is_some())
            .find_map(|resource| {
                let all = self.installed_units(resource);
                let all = all.filter(|units| *units <= MOST_PER_NODE)?;
                let allocatable = self.allocatable.get(resource);
                let usable = allocatable
                    .and_then(|text| quantity::units(text))
                    .unwrap_or(0);
                (usable < all).then(|| LostDevices {
                    resource: resource.clone(),
                    usable,
                    all,
                })
            })
    }
}

impl LostDevices {
    /// Describes how many devices the kubelet still offers.
    pub(crate) fn summary(&self) -> String {
        let Self {
            resource,
            usable,
            all,
        } = self;
        format!("{usable} of {all} {resource} usable")
    }
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
        // Some minutes after the device plugin ended.
        let mut gone = well();
        gone.node
            .labels
            .insert("nvidia.com/gpu.count".into(), "8".into());
        gone.capacity.insert("nvidia.com/gpu".into(), "0".into());
        gone.allocatable.insert("nvidia.com/gpu".into(), "0".into());
        let claimed = NodeDetails {
            may_be_claimed: true,
            ..gone.clone()
        };
        assert_eq!(word(gone), "faulty 0 of 8 nvidia.com/gpu usable");
        assert_eq!(word(claimed), "active", "a DRA driver serves the devices");
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
