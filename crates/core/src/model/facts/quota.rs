//! A ResourceQuota of a namespace with its usage.

use std::collections::BTreeMap;

/// The limits of a ResourceQuota and the amounts in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The gpuctl quota that it belongs to; `None` for a ResourceQuota created by other means.
    pub quota: Option<String>,
    /// Keys of Kubernetes: `requests.nvidia.com/gpu`, `pods`.
    pub hard: BTreeMap<String, String>,
    pub used: BTreeMap<String, String>,
    /// True when a scope restricts it to some pods: those of a priority class, or those without a
    /// deadline.
    pub scoped: bool,
}
