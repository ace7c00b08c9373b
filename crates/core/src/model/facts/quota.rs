//! A quota of a namespace with its usage.

use std::collections::BTreeMap;

/// What may be requested and what is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The quota of ours that it belongs to; `None` for other people's.
    pub quota: Option<String>,
    /// Kubernetes' own keys: `requests.nvidia.com/gpu`, `pods`.
    pub hard: BTreeMap<String, String>,
    pub used: BTreeMap<String, String>,
    /// True when it counts only some pods: of a priority class, or without a deadline.
    pub scoped: bool,
}
