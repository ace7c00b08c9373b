//! Determines which nodes can reach a volume that does not exist yet. A provisioner or a choice
//! between volumes allows several results, and the answer is certain only if all of them agree.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSINode, CSIStorageCapacity, StorageClass};

use super::volume_facts::VolumeFacts;
use super::volume_matching::{class_name, is_allowed, reaches};
use super::volume_space::has_space;
use gpuctl_core::model::Node;

/// The cluster's nodes, and those that accept the job's pods regardless of free capacity.
#[derive(Clone, Debug)]
pub(super) struct JobNodes<'n> {
    pub all: &'n [Node],
    pub eligible: Vec<&'n Node>,
}

/// Names of the eligible nodes on which a possible volume can be used.
pub(super) type Reach<'n> = BTreeSet<&'n str>;

/// Possible locations of a volume that a provisioner creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Provisioning<'n> {
    /// The volume will have one of these reaches.
    Alternatives(Vec<Reach<'n>>),
    /// The user is not allowed to read this resource.
    Unreadable(&'static str),
    /// The driver publishes no topology.
    Unknown,
}

impl<'n> JobNodes<'n> {
    fn reach(&self, accepts: impl Fn(&Node) -> bool) -> Reach<'n> {
        let accepted = self.eligible.iter().filter(|node| accepts(node));
        accepted.map(|node| node.name.as_str()).collect()
    }

    /// Returns the reach of each existing volume.
    pub(super) fn of_volumes<'v>(
        &self,
        volumes: impl IntoIterator<Item = &'v PersistentVolume>,
    ) -> Vec<Reach<'n>> {
        let volumes = volumes.into_iter();
        volumes
            .map(|volume| self.reach(|node| reaches(volume, &node.labels)))
            .collect()
    }

    /// Returns the names of the eligible nodes outside a reach.
    pub(super) fn outside(&self, reach: &Reach<'_>) -> BTreeSet<String> {
        let outside = self
            .eligible
            .iter()
            .filter(|node| !reach.contains(node.name.as_str()));
        outside.map(|node| node.name.clone()).collect()
    }

    /// Whether all eligible nodes have space for a volume of this size, or none has. `None` means
    /// that the space is not compared.
    pub(super) fn agree_on_space(&self, space: Option<&[CSIStorageCapacity]>, size: i128) -> bool {
        let Some(space) = space else { return true };
        let has_space = |node: &&&Node| has_space(space, size, &node.labels);
        let with_space = self.eligible.iter().filter(has_space).count();
        with_space == 0 || with_space == self.eligible.len()
    }

    /// The reaches of a volume that a class provisions. If it is provisioned before a pod is
    /// placed, the driver may choose any part of the cluster, otherwise only one with an eligible
    /// node.
    pub(super) fn provisioned(
        &self,
        class: &StorageClass,
        facts: &VolumeFacts,
        is_delayed: bool,
    ) -> Provisioning<'n> {
        let Some(csi_nodes) = &facts.csi_nodes else {
            return Provisioning::Unreadable("csinodes");
        };
        let allowed = |node: &Node| is_allowed(class, &node.labels);
        let Some(keys) = topology_keys(&class.provisioner, csi_nodes) else {
            return match volumes_are_unrestricted(class, facts) {
                true => Provisioning::Alternatives(vec![self.reach(allowed)]),
                false => Provisioning::Unknown,
            };
        };
        let mut parts: BTreeMap<Vec<Option<&String>>, Reach<'n>> = BTreeMap::new();
        let part = |node: &'n Node| keys.iter().map(|key| node.labels.get(*key)).collect();
        if !is_delayed {
            for node in self.all.iter().filter(|node| allowed(node)) {
                parts.entry(part(node)).or_default();
            }
        }
        for node in self.eligible.iter().copied().filter(|node| allowed(node)) {
            parts.entry(part(node)).or_default().insert(&node.name);
        }
        Provisioning::Alternatives(parts.into_values().collect())
    }
}

/// Returns the node labels that a CSI driver uses as topology keys, or `None` if it runs on no
/// node.
fn topology_keys<'c>(driver: &str, csi_nodes: &'c [CSINode]) -> Option<BTreeSet<&'c str>> {
    let drivers = csi_nodes.iter().flat_map(|node| &node.spec.drivers);
    let mut matches = drivers.filter(|entry| entry.name == driver).peekable();
    matches.peek()?;
    let keys = matches.flat_map(|entry| entry.topology_keys.iter().flatten());
    Some(keys.map(String::as_str).collect())
}

/// Returns true if the class has volumes, and none of them is restricted to some nodes.
/// Provisioners that are not CSI drivers publish no other evidence.
fn volumes_are_unrestricted(class: &StorageClass, facts: &VolumeFacts) -> bool {
    let volumes = facts.volumes.iter().flatten();
    let specs = volumes.filter_map(|volume| volume.spec.as_ref());
    let mut of_class = specs
        .filter(|spec| spec.storage_class_name.as_deref() == Some(class_name(class)))
        .peekable();
    of_class.peek().is_some() && of_class.all(|spec| spec.node_affinity.is_none())
}

/// Returns the reach that all alternatives share, or `None` if they differ.
pub(super) fn agreed(alternatives: Vec<Reach<'_>>) -> Option<Reach<'_>> {
    let mut alternatives = alternatives.into_iter();
    let Some(first) = alternatives.next() else {
        return Some(Reach::new());
    };
    alternatives.all(|other| other == first).then_some(first)
}
