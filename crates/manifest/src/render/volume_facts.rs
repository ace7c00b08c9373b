//! Facts about a job's volumes, which determine the nodes that can use them. The package `cluster`
//! reads the facts, and `VolumeNeeds` lists the requests for them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};

use super::volume_matching::{
    ClaimClass, access_modes, bound_volume, class_of, is_delayed, is_dynamic,
};

/// Claims of a job, and the objects that determine their volumes. A fact is `None` if the user is
/// not allowed to read it.
#[derive(Clone, Debug, Default)]
pub struct VolumeFacts {
    pub namespace: String,
    pub claims: Vec<JobClaim>,
    /// Volumes of the bound claims, or all volumes, depending on `VolumeNeeds`.
    pub volumes: Option<Vec<PersistentVolume>>,
    pub classes: Option<Vec<StorageClass>>,
    /// CSI drivers of each node.
    pub csi_nodes: Option<Vec<CSINode>>,
    /// Running pods that mount each claim, by the name of the claim.
    pub users: Option<BTreeMap<String, Vec<VolumeUser>>>,
}

/// A claim that the pods of a job mount.
#[derive(Clone, Debug)]
pub struct JobClaim {
    pub name: String,
    pub source: ClaimSource,
    /// Whether each pod gets its own claim (`volumes[].ephemeral`).
    pub per_pod: bool,
}

#[derive(Clone, Debug)]
pub enum ClaimSource {
    Existing(Box<PersistentVolumeClaim>),
    /// gpuctl will create the claim with the job.
    New(Box<PersistentVolumeClaim>),
    Missing,
    /// The claim could not be read, for this reason.
    Unreadable(String),
}

/// A running pod that mounts a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUser {
    pub pod: String,
    pub node: String,
}

/// Resources that must be read to judge a job's claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeNeeds {
    pub classes: bool,
    /// Whether all volumes are needed, because a claim has none yet.
    pub all_volumes: bool,
    /// Names of the bound claims' volumes.
    pub volumes: Vec<String>,
    pub csi_nodes: bool,
    /// Whether the pods of the namespace are needed, because a claim allows only one pod or node.
    pub users: bool,
}

impl JobClaim {
    /// Returns the claim if it exists or will be created.
    pub(super) fn object(&self) -> Option<&PersistentVolumeClaim> {
        match &self.source {
            ClaimSource::Existing(claim) | ClaimSource::New(claim) => Some(claim),
            ClaimSource::Missing | ClaimSource::Unreadable(_) => None,
        }
    }
}

impl VolumeFacts {
    /// Lists what to read first, once the claims have been read.
    pub fn needs_of_claims(&self) -> VolumeNeeds {
        let mut needs = VolumeNeeds::default();
        for claim in &self.claims {
            let Some(object) = claim.object() else {
                continue;
            };
            match bound_volume(object) {
                Some(volume) => needs.volumes.push(volume.to_owned()),
                None => needs.classes = true,
            }
            let one_node = |mode: &str| matches!(mode, "ReadWriteOnce" | "ReadWriteOncePod");
            needs.users |= matches!(claim.source, ClaimSource::Existing(_))
                && access_modes(object).iter().all(|mode| one_node(mode));
        }
        needs
    }

    /// Lists what to read for claims without a volume, which depends on their storage classes.
    pub fn needs_of_classes(&self, pods: u64) -> VolumeNeeds {
        let mut needs = VolumeNeeds::default();
        let Some(classes) = &self.classes else {
            return needs;
        };
        for claim in &self.claims {
            let Some(object) = claim
                .object()
                .filter(|object| bound_volume(object).is_none())
            else {
                continue;
            };
            let follows = pods > 1 && !claim.per_pod;
            match class_of(object, classes) {
                ClaimClass::Class(class) if is_delayed(class) => {
                    let restricted = class.allowed_topologies.is_some();
                    needs.all_volumes |= follows || restricted || !is_dynamic(class);
                    needs.csi_nodes |= follows && is_dynamic(class);
                }
                ClaimClass::Class(class) if is_new(claim) => {
                    needs.all_volumes = true;
                    needs.csi_nodes |= is_dynamic(class);
                }
                _ => needs.all_volumes |= is_new(claim),
            }
        }
        needs
    }
}

fn is_new(claim: &JobClaim) -> bool {
    matches!(claim.source, ClaimSource::New(_))
}
