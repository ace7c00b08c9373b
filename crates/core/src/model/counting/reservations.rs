//! Finds the pods that use a device which another pod only reserves for them.

use std::collections::BTreeMap;

use super::consumer::{Consumer, Consumers};
use crate::model::facts::gpu_group;
use crate::model::facts::reading::PodKey;

impl Consumer {
    /// Returns true if the pod only reserves devices for the pods of its group.
    pub(crate) fn reserves(&self) -> bool {
        !self.gpu_groups.is_empty() && gpu_group::reserves(&self.namespace)
    }

    /// Returns true if the pod uses a device that `reservation` reserves.
    pub(crate) fn shares(&self, reservation: &Self) -> bool {
        let mut groups = self.gpu_groups.iter();
        !self.reserves()
            && self.node == reservation.node
            && groups.any(|group| reservation.gpu_groups.contains(group))
    }
}

impl Consumers {
    /// Returns the pods that use reserved devices, by the pod that reserves the device.
    pub(crate) fn sharers(&self) -> BTreeMap<PodKey, Vec<PodKey>> {
        let key = |pod: &Consumer| (pod.namespace.to_string(), pod.name.to_string());
        let grouped = || {
            self.with_devices
                .iter()
                .filter(|pod| !pod.gpu_groups.is_empty())
        };
        let mut sharers = BTreeMap::new();
        for reservation in grouped().filter(|pod| pod.reserves()) {
            let pods: Vec<PodKey> = grouped()
                .filter(|pod| pod.shares(reservation))
                .map(key)
                .collect();
            if !pods.is_empty() {
                sharers.insert(key(reservation), pods);
            }
        }
        sharers
    }
}
