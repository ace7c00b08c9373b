//! What a pod claims from the drivers of dynamic resource allocation (DRA).

use std::collections::BTreeMap;

use super::device_selector::DeviceSelectors;
use super::device_supply::{DeviceSupply, is_repelling};
use crate::model::Taint;

/// A claim of each pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimDemand {
    pub requests: Vec<RequestDemand>,
    pub constraints: Vec<DeviceConstraint>,
}

/// A request of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestDemand {
    pub name: String,
    /// Alternatives. The scheduler uses the first possible one (`firstAvailable`, KEP-4816).
    pub alternatives: Vec<DeviceDemand>,
}

/// A condition for the devices of some requests of a claim, or of all if `requests` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceConstraint {
    pub requests: Vec<String>,
    /// Name of an attribute with its domain, whose values must be equal.
    pub attribute: String,
    /// True if the values must differ instead.
    pub is_distinct: bool,
}

/// Number of devices of one class that each pod claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceDemand {
    /// Name of the alternative; empty if there is only one.
    pub name: String,
    pub class: String,
    pub count: u64,
    /// True for all matching devices of a node, whatever `count` is.
    pub all: bool,
    /// True for access to devices that other claims hold (`adminAccess`).
    pub is_admin: bool,
    /// CEL expressions of the class and the request. A device must satisfy all of them.
    pub selectors: Vec<String>,
    pub tolerations: Vec<DeviceToleration>,
}

/// A toleration of device taints. Source: resource.k8s.io/v1 (DeviceToleration).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceToleration {
    /// Key of the tolerated taints; empty matches every key.
    pub key: String,
    /// Value of the tolerated taints; `None` matches every value (`operator: Exists`).
    pub value: Option<String>,
    /// Effect of the tolerated taints; empty matches every effect.
    pub effect: String,
}

/// What each pod claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDevices {
    /// Explicit claims.
    pub claims: Vec<ClaimDemand>,
    /// Extended resources that a device class can serve, with the pod's demand. DRA serves them
    /// on nodes without a device plugin for them.
    pub extended: BTreeMap<String, DeviceDemand>,
}

impl ClaimDemand {
    /// Number of devices that the claim requests, with the first alternative of each request.
    pub(super) fn devices(&self) -> u64 {
        let first = self
            .requests
            .iter()
            .filter_map(|request| request.alternatives.first());
        first.map(|demand| demand.count).sum()
    }
}

impl DeviceDemand {
    /// Returns for each device whether it satisfies the selectors. Returns `None` if a selector
    /// cannot be evaluated, or if a matching device is not countable.
    pub(super) fn matches(&self, supply: &DeviceSupply) -> Option<Vec<bool>> {
        let selectors = DeviceSelectors::compile(&self.selectors);
        let matches = |device| {
            let is_match = selectors.select(device)?;
            (!is_match || device.is_countable).then_some(is_match)
        };
        supply.devices.iter().map(matches).collect()
    }

    /// Returns true if a taint prevents the allocation of a device to this demand.
    pub(super) fn rejects(&self, taint: &Taint) -> bool {
        let tolerates = |toleration: &DeviceToleration| {
            (toleration.key.is_empty() || toleration.key == taint.key)
                && (toleration.effect.is_empty() || toleration.effect == taint.effect)
                && toleration
                    .value
                    .as_ref()
                    .is_none_or(|value| *value == taint.value.clone().unwrap_or_default())
        };
        is_repelling(taint) && !self.tolerations.iter().any(tolerates)
    }
}
