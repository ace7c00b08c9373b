//! A ResourceQuota of a namespace, and how much of it is used.

use std::collections::BTreeMap;

/// The limits of a ResourceQuota and the amounts in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The gpuctl quota that it belongs to. `None` if the ResourceQuota was not created by gpuctl.
    pub quota: Option<String>,
    /// Limits, keyed by the names that Kubernetes uses: `requests.nvidia.com/gpu`, `pods`.
    pub hard: BTreeMap<String, String>,
    pub used: BTreeMap<String, String>,
    /// True if a scope restricts the quota to some pods, for example those with a certain priority
    /// class or those without a deadline.
    pub scoped: bool,
}
