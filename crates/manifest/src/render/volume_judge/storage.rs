//! Compares the volumes of a job with the free space of storage systems, and with the limits of
//! nodes on the number of volumes. What the user cannot read becomes a warning and never
//! a cause.

use k8s_openapi::api::storage::v1::{CSIDriver, CSIStorageCapacity, StorageClass};

use super::ClaimJudge;
use crate::render::volume_facts::reports_capacity;
use crate::render::volume_limits::VolumeLimits;
use crate::render::volume_matching::{class_name, is_dynamic};

impl ClaimJudge<'_> {
    /// The space for new volumes of a class. Returns `None` if its driver reports none, because the
    /// scheduler then does not compare it, or if the user cannot read it.
    pub(super) fn space(
        &mut self,
        claim: &str,
        class: &StorageClass,
    ) -> Option<Vec<CSIStorageCapacity>> {
        let what = || format!("the free space for the volume of claim `{claim}`");
        if !is_dynamic(class) {
            return None;
        }
        let Some(drivers) = &self.facts.csi_drivers else {
            self.rules.not_checked(&what(), "csidrivers");
            return None;
        };
        let is_of_class =
            |driver: &&CSIDriver| driver.metadata.name.as_ref() == Some(&class.provisioner);
        let driver = drivers.iter().find(is_of_class)?;
        if !reports_capacity(driver) {
            return None;
        }
        let Some(capacities) = &self.facts.storage_capacities else {
            self.rules.not_checked(&what(), "csistoragecapacities");
            return None;
        };
        let of_class = capacities
            .iter()
            .filter(|capacity| capacity.storage_class_name == class_name(class));
        Some(of_class.cloned().collect())
    }

    /// Compares the number of volumes with the limits of nodes.
    pub(super) fn limits(&mut self) {
        const LIMITS: &str = "the limits of nodes on the number of volumes";
        let limits = VolumeLimits::new(self.facts);
        if limits.has_drivers() && self.facts.csi_nodes.is_none() {
            self.rules.not_checked(LIMITS, "csinodes");
        }
        if limits.has_limits() && self.facts.attachable.is_none() {
            self.rules.not_checked(LIMITS, "persistentvolumes");
        }
        self.rules.limits = limits;
    }
}
