//! A ResourceQuota of a namespace and its use.

use std::collections::BTreeMap;

/// Limits and used amounts of a ResourceQuota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    pub namespace: String,
    /// Name of the ResourceQuota.
    pub name: String,
    /// The gpuctl quota that the ResourceQuota belongs to, or `None` if gpuctl did not create it.
    pub quota: Option<String>,
    /// Limits by Kubernetes' names, such as `requests.nvidia.com/gpu` or `pods`.
    pub hard: BTreeMap<String, String>,
    pub used: BTreeMap<String, String>,
    /// True if the quota applies only to some pods, for example those with a certain priority class
    /// or without a deadline.
    pub scoped: bool,
}
