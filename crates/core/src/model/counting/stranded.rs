//! Finds free GPUs that no job can use, and the reason.

use super::node_usage::NodeUsage;
use crate::model::contract::labels::POOL_LABEL;
use crate::model::facts::host::NodeHealth;
use crate::model::facts::node::DEDICATED;

/// The taint effect that expresses only a preference.
pub(super) const PREFERENCE: &str = "PreferNoSchedule";

/// Why free GPUs are unusable. The variants become names of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum StrandedBy {
    Cordoned,
    NodeFaulty,
    Taint,
    #[strum(serialize = "insufficient-cpu")]
    Cpu,
    #[strum(serialize = "insufficient-memory")]
    Memory,
}

impl StrandedBy {
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Free GPUs of one node that no pod can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranded {
    pub node: String,
    pub gpus: u64,
    pub by: StrandedBy,
    /// The fault or the taint that is the cause.
    pub detail: Option<String>,
    /// The pod or job that uses the most of the scarce resource on the node, as NAMESPACE/NAME. The
    /// amount is in thousandths of a CPU, or in bytes.
    pub holder: Option<(String, u64)>,
}

/// Why a node accepts no ordinary GPU job. A fault without a taint does not prevent scheduling.
/// Nodes that are not ready are tainted by Kubernetes.
pub(super) fn closed(host: &NodeUsage) -> Option<(StrandedBy, Option<String>)> {
    let node = &host.details.node;
    if !node.schedulable {
        return Some((StrandedBy::Cordoned, None));
    }
    let is_expected = |taint: &&crate::model::Taint| {
        let dedicated = |(key, value): &(&str, Option<&str>)| {
            taint.key == *key && value.is_none_or(|value| taint.value.as_deref() == Some(value))
        };
        // A taint whose key is the name of the resource also dedicates a node:
        // `gpu.intel.com/i915`.
        let of_vendor = host.details.allocatable.contains_key(&taint.key);
        taint.effect == PREFERENCE
            || taint.key == POOL_LABEL
            || of_vendor
            || DEDICATED.iter().any(dedicated)
    };
    let taint = node.taints.iter().find(|taint| !is_expected(taint))?;
    Some(match host.health {
        // A faulty node is usually tainted because of its fault, so the fault is the better
        // explanation.
        NodeHealth::Faulty => (StrandedBy::NodeFaulty, host.reason.clone()),
        _ => (StrandedBy::Taint, Some(taint.key.clone())),
    })
}
