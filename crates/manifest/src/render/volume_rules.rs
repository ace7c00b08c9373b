//! Restrictions on nodes that result from a job's volumes, and the problems with its claims, as
//! `volume_judge.rs` computes them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::StorageClass;

use super::volume_matching::{is_allowed, is_dynamic, is_in_zone, reaches};
use gpuctl_core::model::Node;
use gpuctl_core::model::counting::fit::FitReason;

/// Restrictions and problems of a job's volumes.
#[derive(Clone, Debug, Default)]
pub struct VolumeRules {
    pub findings: Vec<VolumeFinding>,
    /// Problems that the scheduler does not check.
    pub warnings: Vec<String>,
    /// Bound volumes, each with the name of its claim.
    pub(super) bound: Vec<(String, PersistentVolume)>,
    /// Claims whose volume is chosen together with the first pod's node, the smallest first.
    pub(super) delayed: Vec<DelayedClaim>,
    /// Names of claims, each with the nodes that cannot reach its future volume.
    pub(super) excluded: Vec<(String, BTreeSet<String>)>,
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

    /// Returns the first claim that would get no volume if a pod were placed on the node.
    fn unmet_delayed(&self, node: &Node) -> Option<&str> {
        let mut chosen = BTreeSet::new();
        for claim in &self.delayed {
            if let Some(selected) = &claim.selected_node {
                if *selected != node.name {
                    return Some(&claim.name);
                }
                continue;
            }
            let has_volume = claim.candidates.iter().any(|volume| {
                reaches(volume, &node.labels) && chosen.insert(volume.metadata.name.as_deref())
            });
            let provides = is_dynamic(&claim.class) && is_allowed(&claim.class, &node.labels);
            if !has_volume && !provides {
                return Some(&claim.name);
            }
        }
        None
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
