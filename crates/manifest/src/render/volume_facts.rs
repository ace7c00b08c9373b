//! Facts about a job's volumes, which determine the nodes that can use them. The package `cluster`
//! reads the facts, and `VolumeNeeds` lists the requests for them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};

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
    /// The drivers that create the volumes of claims. A provisioner may have no such object.
    pub csi_drivers: Option<Vec<CSIDriver>>,
    /// How much space the storage systems have, where drivers report it.
    pub storage_capacities: Option<Vec<CSIStorageCapacity>>,
    /// All volumes, if a node limits their number.
    pub attachable: Option<Vec<PersistentVolume>>,
    /// The claims that running pods mount, as namespace and name, keyed by node.
    pub mounted: Option<BTreeMap<String, BTreeSet<(String, String)>>>,
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
    /// The names of drivers that create volumes together with the first pod.
    pub csi_drivers: Vec<String>,
    pub storage_capacities: bool,
    /// All volumes, because nodes limit how many of them pods can use.
    pub attachable: bool,
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
        let mut needs = VolumeNeeds {
            csi_nodes: self.claims.iter().any(|claim| self.driver(claim).is_some()),
            ..VolumeNeeds::default()
        };
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
                    // Names of CSI drivers have no slash, and names of other provisioners do.
                    if is_dynamic(class) && !class.provisioner.contains('/') {
                        needs.csi_drivers.push(class.provisioner.clone());
                    }
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

impl VolumeFacts {
    /// The requests that depend on the drivers and on the nodes that they run on.
    pub fn needs_of_drivers(&self) -> VolumeNeeds {
        let drivers: BTreeSet<&str> = self
            .claims
            .iter()
            .filter_map(|claim| Some(self.driver(claim)?.name))
            .collect();
        let csi_drivers = self.csi_drivers.iter().flatten();
        VolumeNeeds {
            storage_capacities: csi_drivers.into_iter().any(reports_capacity),
            attachable: self
                .csi_nodes
                .iter()
                .flatten()
                .flat_map(limits)
                .any(|(driver, _)| drivers.contains(driver)),
            ..VolumeNeeds::default()
        }
    }

    /// The driver of a claim's volume: that of the bound volume, or the provisioner of the class.
    /// `None` if the volume has no CSI driver or is unknown.
    pub(super) fn driver<'f>(&'f self, claim: &'f JobClaim) -> Option<ClaimDriver<'f>> {
        let object = claim.object()?;
        match bound_volume(object) {
            Some(name) => {
                let mut volumes = self.volumes.iter().flatten();
                let volume =
                    volumes.find(|volume| volume.metadata.name.as_deref() == Some(name))?;
                let source = volume.spec.as_ref()?.csi.as_ref()?;
                Some(ClaimDriver {
                    name: &source.driver,
                    handle: Some(&source.volume_handle),
                })
            }
            None => match class_of(object, self.classes.as_deref()?) {
                ClaimClass::Class(class) if is_dynamic(class) => Some(ClaimDriver {
                    name: &class.provisioner,
                    handle: None,
                }),
                _ => None,
            },
        }
    }
}

/// The driver of a claim's volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimDriver<'f> {
    pub name: &'f str,
    /// The volume as the driver knows it; `None` if it does not exist yet.
    pub handle: Option<&'f str>,
}

/// Whether the scheduler compares the size of new volumes with the space that a driver reports.
pub(super) fn reports_capacity(driver: &CSIDriver) -> bool {
    driver.spec.storage_capacity == Some(true)
}

/// The largest numbers of volumes of each driver on a node, where the driver has a limit.
pub(super) fn limits(node: &CSINode) -> impl Iterator<Item = (&str, u64)> {
    node.spec.drivers.iter().filter_map(|driver| {
        let count = driver.allocatable.as_ref()?.count?;
        Some((driver.name.as_str(), u64::try_from(count).ok()?))
    })
}

fn is_new(claim: &JobClaim) -> bool {
    matches!(claim.source, ClaimSource::New(_))
}
