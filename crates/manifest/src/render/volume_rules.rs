//! Restrictions on nodes that result from a job's volumes, and the problems with its claims, as
//! `volume_judge.rs` computes them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSIStorageCapacity, StorageClass};

use super::volume_limits::VolumeLimits;
use super::volume_matching::{is_allowed, is_dynamic, is_in_zone, reaches};
use super::volume_space::has_space;
use gpuctl_core::model::Node;
use gpuctl_core::model::counting::fit_reason::FitReason;

/// Restrictions and problems of a job's volumes.
#[derive(Clone, Debug, Default)]
pub struct VolumeRules {
    pub findings: Vec<VolumeFinding>,
    /// Problems that the scheduler ignores, and what was not checked.
    pub warnings: Vec<String>,
    /// Bound volumes, each with the name of its claim.
    pub(super) bound: Vec<(String, PersistentVolume)>,
    /// Claims whose volume is chosen together with the first pod's node, the smallest first.
    pub(super) delayed: Vec<DelayedClaim>,
    /// Names of claims, each with the nodes that cannot reach its future volume.
    pub(super) excluded: Vec<(String, BTreeSet<String>)>,
    pub(super) limits: VolumeLimits,
}

/// How many pods of a job get their volumes on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVolumes {
    pub pods_now: u64,
    /// The same if the node runs no other pods. Storage systems then have space.
    pub pods_when_empty: u64,
    /// Why no pod gets them now: the cause and its detail.
    pub cause: Option<(&'static str, String)>,
}

/// A problem with a claim, which applies to all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeFinding {
    Never(FitReason),
    NotNow(FitReason),
    Unknown(FitReason),
}

/// A claim whose volume is bound when its first pod is placed.
#[derive(Clone, Debug)]
pub(super) struct DelayedClaim {
    pub name: String,
    /// The requested size, in thousandths of a byte.
    pub size: i128,
    /// The node that the scheduler has already chosen for the volume.
    pub selected_node: Option<String>,
    pub class: StorageClass,
    /// Existing volumes that suit the claim, the best first.
    pub candidates: Vec<PersistentVolume>,
    /// The space for new volumes of its class; `None` if the scheduler does not compare it, or if
    /// it is unknown.
    pub space: Option<Vec<CSIStorageCapacity>>,
}

impl VolumeRules {
    /// Returns the first claim whose volume cannot be used on the node.
    pub fn unmet_claim(&self, node: &Node) -> Option<&str> {
        let labels = &node.labels;
        let bound = self
            .bound
            .iter()
            .find(|(_, volume)| !reaches(volume, labels) || !is_in_zone(volume, labels));
        let excluded = || {
            let mut excluded = self.excluded.iter();
            excluded.find(|(_, nodes)| nodes.contains(&node.name))
        };
        bound
            .map(|(claim, _)| claim.as_str())
            .or_else(|| excluded().map(|(claim, _)| claim.as_str()))
            .or_else(|| self.unmet_delayed(node))
    }

    /// Compares the volumes with the limits of the node and the space that it reaches. Only for
    /// nodes without an unmet claim.
    pub fn on_node(&self, node: &Node) -> NodeVolumes {
        let (now, when_empty, driver) = match self.limits.pods(&node.name) {
            Some(limited) => (limited.now, limited.when_empty, limited.driver),
            None => (u64::MAX, u64::MAX, ""),
        };
        let without_space = || {
            let created = self.created_on(node).unwrap_or_default();
            let lacks_space = |claim: &&DelayedClaim| {
                let space = claim.space.as_ref();
                space.is_some_and(|space| !has_space(space, claim.size, &node.labels))
            };
            created.into_iter().find(lacks_space)
        };
        let cause = match now {
            0 => Some(("volume-limit", driver.to_owned())),
            _ => without_space().map(|claim| ("storage-capacity", claim.name.clone())),
        };
        NodeVolumes {
            pods_now: if cause.is_some() { 0 } else { now },
            pods_when_empty: when_empty,
            cause,
        }
    }

    /// The first claim that would get no volume if a pod were placed on the node.
    fn unmet_delayed(&self, node: &Node) -> Option<&str> {
        self.created_on(node).err()
    }

    /// The claims whose volumes would be created if a pod were placed on the node. The error is the
    /// first claim that would get no volume.
    fn created_on(&self, node: &Node) -> Result<Vec<&DelayedClaim>, &str> {
        let (mut chosen, mut created) = (BTreeSet::new(), Vec::new());
        for claim in &self.delayed {
            if let Some(selected) = &claim.selected_node {
                if *selected != node.name {
                    return Err(&claim.name);
                }
                created.push(claim);
                continue;
            }
            let has_volume = claim.candidates.iter().any(|volume| {
                reaches(volume, &node.labels) && chosen.insert(volume.metadata.name.as_deref())
            });
            let provides = is_dynamic(&claim.class) && is_allowed(&claim.class, &node.labels);
            match (has_volume, provides) {
                (true, _) => {}
                (false, true) => created.push(claim),
                (false, false) => return Err(&claim.name),
            }
        }
        Ok(created)
    }

    /// Warns that something was not checked, because the user may not read a resource.
    pub(super) fn not_checked(&mut self, what: &str, resource: &str) {
        self.warnings.push(format!(
            "not checked: {what}, because you are not allowed to read {resource}"
        ));
    }

    pub(super) fn never(&mut self, cause: &'static str, text: String) {
        self.findings
            .push(VolumeFinding::Never(FitReason::new(cause, text)));
    }

    pub(super) fn not_now(&mut self, cause: &'static str, text: String) {
        self.findings
            .push(VolumeFinding::NotNow(FitReason::new(cause, text)));
    }

    pub(super) fn unknown(&mut self, cause: &'static str, text: String) {
        self.findings
            .push(VolumeFinding::Unknown(FitReason::new(cause, text)));
    }

    pub(super) fn unreadable(&mut self, claim: &str, resource: &str) {
        let text = format!(
            "the volume of claim `{claim}`: you are not allowed to read {resource}; ask your \
             administrator for the role of `gpuctl auth check fit --emit-role=full`"
        );
        self.unknown("volume-unreadable", text);
    }
}
