//! Finds free GPUs that no job can use, with the reason.

use super::node_usage::NodeUsage;
use crate::model::contract::labels::POOL_LABEL;
use crate::model::facts::condition::HostCondition;
use crate::model::facts::host::NodeHealth;
use crate::model::facts::node::DEDICATED;
use crate::model::values::quantity;

/// Taint effect that pods need not tolerate.
pub(super) const PREFERENCE: &str = "PreferNoSchedule";

/// Reason why free GPUs are unusable. The kebab-case names of the variants are causes.
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

/// CPU and memory that a job needs per GPU. Free GPUs without them are stranded.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostPerGpu {
    pub cpu_milli: u64,
    pub memory_bytes: u64,
}

impl HostPerGpu {
    /// The smallest request of a container, with any number of GPUs, in a namespace with a quota.
    /// The LimitRange that gpuctl creates with a quota sets it as the default for each container.
    pub(super) const SMALLEST: Self = Self {
        cpu_milli: 100,
        memory_bytes: 256 << 20,
    };

    /// Returns for how many GPUs a node has CPU, and for how many it has memory. Returns `None` if
    /// the requests of its pods are unknown.
    pub(super) fn units_on(self, host: &NodeUsage) -> Option<(u64, u64)> {
        let by_cpu = units_within(unused(host, "cpu", host.cpu_used_milli?), self.cpu_milli);
        let memory = unused(host, "memory", host.memory_used_bytes?);
        Some((by_cpu, units_within(memory, self.memory_bytes)))
    }
}

/// Returns the unused amount of a resource on a node, or `None` if the node does not report the
/// resource.
fn unused(host: &NodeUsage, resource: &str, used: u64) -> Option<u64> {
    let milli = quantity::milli(host.details.allocatable.get(resource)?)?;
    let allocatable = if resource == "cpu" {
        milli
    } else {
        milli / 1000
    };
    Some(u64::try_from(allocatable).unwrap_or(0).saturating_sub(used))
}

/// Returns how often `per_unit` fits into the unused amount. A resource that the node does not
/// report is unlimited.
fn units_within(unused: Option<u64>, per_unit: u64) -> u64 {
    // If a GPU needs none of the resource, `checked_div` returns `None`: no limit.
    unused
        .and_then(|unused| unused.checked_div(per_unit))
        .unwrap_or(u64::MAX)
}

impl NodeUsage {
    /// Returns true if jobs without special tolerations can get GPUs of this node.
    pub fn accepts_pods(&self) -> bool {
        closed(self).is_none()
    }
}

impl StrandedBy {
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Free GPUs of one node that no job can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranded {
    pub node: String,
    pub gpus: u64,
    pub by: StrandedBy,
    /// Fault or taint that makes the GPUs unusable.
    pub detail: Option<String>,
    /// NAMESPACE/NAME of the pod or job that uses the most of the scarce resource on the node. The
    /// amount is in thousandths of a CPU, or in bytes.
    pub holder: Option<(String, u64)>,
}

/// Returns why a node accepts no ordinary GPU job, if so. A fault other than a missing kubelet
/// closes the node only with a taint, because the scheduler considers nothing else.
pub(super) fn closed(host: &NodeUsage) -> Option<(StrandedBy, Option<String>)> {
    let node = &host.details.node;
    if !node.schedulable {
        return Some((StrandedBy::Cordoned, None));
    }
    // Kubernetes also taints nodes that are not ready, but some seconds later.
    let is_not_ready =
        |condition: &HostCondition| condition.kind == "Ready" && condition.status != "True";
    if host.details.conditions.iter().any(is_not_ready) {
        return Some((StrandedBy::NodeFaulty, host.reason.clone()));
    }
    let is_expected = |taint: &&crate::model::Taint| {
        let dedicated = |(key, value): &(&str, Option<&str>)| {
            taint.key == *key && value.is_none_or(|value| taint.value.as_deref() == Some(value))
        };
        // A taint whose key is a resource name only reserves the node for GPU pods:
        // `gpu.intel.com/i915`.
        let of_vendor = host.details.allocatable.contains_key(&taint.key);
        taint.effect == PREFERENCE
            || taint.key == POOL_LABEL
            || of_vendor
            || DEDICATED.iter().any(dedicated)
    };
    let taint = node.taints.iter().find(|taint| !is_expected(taint))?;
    Some(match host.health {
        // The taint is usually a consequence of the fault, so report the fault.
        NodeHealth::Faulty => (StrandedBy::NodeFaulty, host.reason.clone()),
        _ => (StrandedBy::Taint, Some(taint.key.clone())),
    })
}
