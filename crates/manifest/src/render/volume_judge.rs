//! Determines which nodes the volumes of a job allow, and whether its claims get volumes. Works
//! before the job exists. Missing facts lead to `VolumeFinding::Unknown`, never to a restriction.
//!
//! Source: the scheduler plugins `VolumeBinding`, `VolumeRestrictions`, `VolumeZone` and
//! `NodeVolumeLimits` (Kubernetes 1.36).

mod storage;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::volume_facts::{ClaimSource, JobClaim, VolumeFacts};
use super::volume_matching::{
    ClaimClass, VolumeMatch, access_modes, bound_volume, class_name, class_of, is_attached,
    is_delayed, is_dynamic, matching, requested_size, requested_volume, selected_node, volume_size,
};
use super::volume_reach::{JobNodes, Provisioning, Reach, agreed};
use super::volume_rules::{DelayedClaim, VolumeRules};
use gpuctl_core::model::Node;

/// Judges the claims of a job with `pods` pods. `is_eligible` selects the nodes that accept the
/// pods, regardless of free capacity.
pub fn judge_volumes(
    facts: &VolumeFacts,
    pods: u64,
    nodes: &[Node],
    is_eligible: impl Fn(&Node) -> bool,
) -> VolumeRules {
    let mut judge = ClaimJudge {
        facts,
        pods,
        nodes: JobNodes {
            all: nodes,
            eligible: nodes.iter().filter(|node| is_eligible(node)).collect(),
        },
        rules: VolumeRules::default(),
        chosen: BTreeSet::new(),
    };
    facts.claims.iter().for_each(|claim| judge.claim(claim));
    judge.limits();
    let mut rules = judge.rules;
    // The scheduler gives the smallest volumes to the smallest claims.
    rules.delayed.sort_by_key(|claim| claim.size);
    rules
}

struct ClaimJudge<'f> {
    facts: &'f VolumeFacts,
    pods: u64,
    nodes: JobNodes<'f>,
    rules: VolumeRules,
    /// Names of the volumes that the job's earlier claims get.
    chosen: BTreeSet<String>,
}

impl<'f> ClaimJudge<'f> {
    fn claim(&mut self, claim: &'f JobClaim) {
        let name = claim.name.as_str();
        match &claim.source {
            ClaimSource::Missing => {
                let namespace = &self.facts.namespace;
                let text = format!("claim `{name}` does not exist in namespace `{namespace}`");
                self.rules.never("claim-missing", text);
            }
            ClaimSource::Unreadable(reason) => {
                let text = format!("the volume of claim `{name}`: {reason}");
                self.rules.unknown("claim-unreadable", text);
            }
            ClaimSource::New(object) => {
                self.exclusive(claim, object);
                self.unbound(claim, object);
            }
            ClaimSource::Existing(object) => {
                let phase = object
                    .status
                    .as_ref()
                    .and_then(|status| status.phase.as_deref());
                if object.metadata.deletion_timestamp.is_some() {
                    let text = format!("claim `{name}` is being deleted");
                    self.rules.never("claim-missing", text);
                } else if phase == Some("Lost") {
                    let text = format!("claim `{name}` has lost its volume");
                    self.rules.never("volume-missing", text);
                } else {
                    self.exclusive(claim, object);
                    match bound_volume(object) {
                        Some(volume) => self.bound(name, volume),
                        None => self.unbound(claim, object),
                    }
                }
            }
        }
    }

    /// Checks a `ReadWriteOncePod` claim, for which the scheduler does not place a second pod.
    fn exclusive(&mut self, claim: &JobClaim, object: &PersistentVolumeClaim) {
        let name = &claim.name;
        let mut modes = access_modes(object).iter();
        if !modes.any(|mode| mode == "ReadWriteOncePod") {
            return;
        }
        if self.pods > 1 && !claim.per_pod {
            let text = format!(
                "claim `{name}` is ReadWriteOncePod: one pod can mount it, but the job has {}",
                self.pods
            );
            self.rules.never("claim-in-use", text);
        }
        if !matches!(claim.source, ClaimSource::Existing(_)) {
            return;
        }
        match &self.facts.users {
            None => {
                let text = format!(
                    "whether a pod uses claim `{name}` (ReadWriteOncePod): you are not allowed to \
                     list pods"
                );
                self.rules.unknown("claim-unreadable", text);
            }
            Some(users) => {
                let users = users.get(name).map(Vec::as_slice).unwrap_or_default();
                if let Some(user) = users.first() {
                    let pod = &user.pod;
                    let text =
                        format!("claim `{name}` is ReadWriteOncePod, and pod `{pod}` uses it");
                    self.rules.not_now("claim-in-use", text);
                }
            }
        }
    }

    fn bound(&mut self, claim: &str, name: &str) {
        let Some(volumes) = &self.facts.volumes else {
            self.rules.unreadable(claim, "persistentvolumes");
            return;
        };
        let is_named = |volume: &&PersistentVolume| volume.metadata.name.as_deref() == Some(name);
        let Some(volume) = volumes.iter().find(is_named) else {
            let text = format!("volume `{name}` of claim `{claim}` does not exist");
            self.rules.never("volume-missing", text);
            return;
        };
        if is_attached(volume) {
            self.warn_about_attachment(claim);
        }
        self.rules.bound.push((claim.to_owned(), volume.clone()));
    }

    /// Warns that a `ReadWriteOnce` volume cannot be attached to a second node. The scheduler
    /// ignores this access mode and places pods on several nodes.
    fn warn_about_attachment(&mut self, claim: &str) {
        let users = self.facts.users.as_ref().and_then(|users| users.get(claim));
        if let Some(user) = users.into_iter().flatten().next() {
            self.rules.warnings.push(format!(
                "claim `{claim}` is ReadWriteOnce, and pod `{}` uses it on node {}: pods on other \
                 nodes will wait for the volume",
                user.pod, user.node
            ));
        }
        if self.pods > 1 {
            self.rules.warnings.push(format!(
                "claim `{claim}` is ReadWriteOnce: if the {} pods run on several nodes, some will \
                 wait for the volume",
                self.pods
            ));
        }
    }

    fn unbound(&mut self, claim: &JobClaim, object: &PersistentVolumeClaim) {
        let name = claim.name.as_str();
        let is_new = matches!(claim.source, ClaimSource::New(_));
        let Some(classes) = &self.facts.classes else {
            self.rules.unreadable(name, "storageclasses");
            return;
        };
        let class = class_of(object, classes);
        match class {
            ClaimClass::Class(class) if is_delayed(class) && requested_volume(object).is_none() => {
                self.delayed(claim, object, class);
            }
            // The claim exists, so the controller would already have bound it to a suitable free
            // volume.
            _ if !is_new => self.waiting(name, class),
            _ => self.immediate(claim, object, class),
        }
    }

    /// Returns the free volumes that suit a claim, the smallest first, and whether other claims
    /// hold suitable volumes. Returns `None` if the user cannot read volumes.
    fn candidates(
        &self,
        claim: &JobClaim,
        object: &PersistentVolumeClaim,
        class: &str,
    ) -> Option<(Vec<(VolumeMatch, &'f PersistentVolume)>, bool)> {
        let volumes = self.facts.volumes.as_ref()?;
        let unchosen = volumes.iter().filter(|volume| {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            !self.chosen.contains(name)
        });
        let (name, namespace) = (&claim.name, &self.facts.namespace);
        let suitable = unchosen
            .filter_map(|volume| Some((matching(object, name, namespace, class, volume)?, volume)));
        let (taken, mut free): (Vec<_>, Vec<_>) =
            suitable.partition(|(how, _)| *how == VolumeMatch::Taken);
        free.sort_by_key(|(how, volume)| (*how, volume_size(volume)));
        if free
            .first()
            .is_some_and(|(how, _)| *how == VolumeMatch::Reserved)
        {
            free.truncate(1);
        }
        Some((free, !taken.is_empty()))
    }

    /// Judges a claim whose volume is bound when its first pod is placed.
    fn delayed(&mut self, claim: &JobClaim, object: &PersistentVolumeClaim, class: &StorageClass) {
        let name = claim.name.as_str();
        let follows = self.pods > 1 && !claim.per_pod;
        let needs_volumes = follows || !is_dynamic(class) || class.allowed_topologies.is_some();
        let candidates = self.candidates(claim, object, class_name(class));
        let (free, is_taken) = match candidates {
            Some(candidates) => candidates,
            None if needs_volumes => return self.rules.unreadable(name, "persistentvolumes"),
            None => (Vec::new(), false),
        };
        if free.is_empty() && !is_dynamic(class) {
            return self.without_volume(name, class, is_taken);
        }
        if follows && !self.follow(name, class, &free) {
            return;
        }
        let size = requested_size(object);
        let mut space = self.space(name, class);
        if follows && !self.nodes.agree_on_space(space.as_deref(), size) {
            // Pods can join the first one on nodes without space.
            let text =
                format!("the space for the volume of claim `{name}`, which only some nodes have");
            self.rules.unknown("storage-capacity", text);
            space = None;
        }
        self.rules.delayed.push(DelayedClaim {
            name: name.to_owned(),
            size,
            space,
            selected_node: selected_node(object).map(ToOwned::to_owned),
            class: class.clone(),
            candidates: free.into_iter().map(|(_, volume)| volume.clone()).collect(),
        });
    }

    /// Restricts the other pods to nodes that reach the first pod's volume. Returns false if these
    /// nodes are unknown.
    fn follow(
        &mut self,
        claim: &str,
        class: &StorageClass,
        free: &[(VolumeMatch, &PersistentVolume)],
    ) -> bool {
        let mut alternatives = self
            .nodes
            .of_volumes(free.iter().map(|(_, volume)| *volume));
        if is_dynamic(class) {
            match self.nodes.provisioned(class, self.facts, true) {
                Provisioning::Alternatives(parts) => alternatives.extend(parts),
                Provisioning::Unreadable(resource) => {
                    self.rules.unreadable(claim, resource);
                    return false;
                }
                Provisioning::Unknown => {
                    self.unknown_provisioner(claim, class);
                    return false;
                }
            }
        }
        // Drop volumes that no eligible node reaches, because the first pod is placed on an
        // eligible node.
        alternatives.retain(|reach| !reach.is_empty());
        let text = "its first pod decides where the volume is, and the other pods must follow";
        self.restrict(claim, alternatives, text)
    }

    /// Judges a new claim that the control plane binds before any pod is placed.
    fn immediate(
        &mut self,
        claim: &JobClaim,
        object: &PersistentVolumeClaim,
        class: ClaimClass<'_>,
    ) {
        let name = claim.name.as_str();
        let wanted = match class {
            ClaimClass::Class(class) => class_name(class),
            ClaimClass::Missing(wanted) => wanted,
            ClaimClass::Classless => "",
        };
        let Some((free, is_taken)) = self.candidates(claim, object, wanted) else {
            return self.rules.unreadable(name, "persistentvolumes");
        };
        let alternatives = match class {
            _ if !free.is_empty() => {
                let first = free
                    .first()
                    .and_then(|(_, volume)| volume.metadata.name.clone());
                self.chosen.extend(first);
                self.nodes
                    .of_volumes(free.iter().map(|(_, volume)| *volume))
            }
            ClaimClass::Class(class) if is_dynamic(class) => {
                match self.nodes.provisioned(class, self.facts, false) {
                    Provisioning::Alternatives(parts) => parts,
                    Provisioning::Unreadable(resource) => {
                        return self.rules.unreadable(name, resource);
                    }
                    Provisioning::Unknown => return self.unknown_provisioner(name, class),
                }
            }
            ClaimClass::Class(class) => return self.without_volume(name, class, is_taken),
            _ => return self.waiting(name, class),
        };
        let text = "it is created before the pods are placed, and only some nodes will reach it";
        self.restrict(name, alternatives, text);
    }

    /// Excludes the nodes outside the common reach. Returns false if the alternatives differ.
    fn restrict(&mut self, claim: &str, alternatives: Vec<Reach<'f>>, otherwise: &str) -> bool {
        let Some(reach) = agreed(alternatives) else {
            let text = format!("the volume of claim `{claim}`: {otherwise}");
            self.rules.unknown("volume-topology", text);
            return false;
        };
        let outside = self.nodes.outside(&reach);
        self.rules.excluded.push((claim.to_owned(), outside));
        true
    }

    fn unknown_provisioner(&mut self, claim: &str, class: &StorageClass) {
        let text = format!(
            "the volume of claim `{claim}`: no node reports where `{}` of storage class `{}` \
             creates volumes",
            class.provisioner,
            class_name(class)
        );
        self.rules.unknown("volume-topology", text);
    }

    /// Reports that a class without a provisioner has no volume for a claim.
    fn without_volume(&mut self, claim: &str, class: &StorageClass, is_taken: bool) {
        let class = class_name(class);
        let text = format!(
            "no free volume of storage class `{class}` suits claim `{claim}`, and nothing creates \
             volumes of this class"
        );
        match is_taken {
            true => self.rules.not_now("claim-pending", text),
            false => self.rules.never("claim-pending", text),
        }
    }

    /// Reports a claim that the control plane has not bound yet, or cannot bind.
    fn waiting(&mut self, claim: &str, class: ClaimClass<'_>) {
        match class {
            ClaimClass::Missing(class) => {
                let text = format!(
                    "claim `{claim}` requests storage class `{class}`, which does not exist"
                );
                self.rules.never("storage-class-missing", text);
            }
            ClaimClass::Class(class) => {
                let class = class_name(class);
                let text = format!("claim `{claim}` (storage class `{class}`) has no volume yet");
                self.rules.not_now("claim-pending", text);
            }
            ClaimClass::Classless => {
                let text = format!(
                    "claim `{claim}` has no storage class, because it names none and the cluster \
                     has no default, and no free volume suits it"
                );
                self.rules.not_now("claim-pending", text);
            }
        }
    }
}

#[cfg(test)]
mod tests;
