//! Free resources of nodes, the holders of their devices, and pods that wait for devices. Reading
//! them from the API server is the job of other modules.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::capacity::Amounts;
use crate::model::facts::node::Node;

/// Free resources of nodes, and the holders of their devices.
#[derive(Clone, Debug, Default)]
pub struct ClusterCapacity {
    /// By node; negative where the requests exceed the allocatable amount.
    pub free: BTreeMap<String, Amounts>,
    /// Devices in use: by node, then by NAMESPACE/NAME of the job, else of the pod's owner, else of
    /// the pod.
    pub held: BTreeMap<String, BTreeMap<String, u64>>,
    /// CPU and memory in use in thousandths, keyed in the same way.
    pub machine: BTreeMap<String, BTreeMap<String, Amounts>>,
    /// Bound pods, by node.
    pub placed: BTreeMap<String, Vec<PlacedPod>>,
    /// Pods without a node.
    pub waiting: Vec<WaitingPod>,
}

/// A pod that is bound to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacedPod {
    /// NAMESPACE/NAME, as in `ClusterCapacity::held`.
    pub holder: String,
    pub priority: i64,
    pub devices: u64,
    pub amounts: Amounts,
    pub started_at: Option<Timestamp>,
}

/// A pod that is not bound to a node yet.
#[derive(Clone, Debug, Default)]
pub struct WaitingPod {
    /// NAMESPACE/NAME, as in `ClusterCapacity::held`.
    pub holder: String,
    pub priority: i64,
    pub devices: u64,
    /// The node on which the scheduler preempts pods for it (`status.nominatedNodeName`).
    pub nominated: Option<String>,
    /// The pod's node selector.
    pub selector: BTreeMap<String, String>,
}

impl ClusterCapacity {
    /// Lists the holders of devices of these nodes, those with the most devices first.
    pub fn holders<'n>(&self, nodes: impl Iterator<Item = &'n str>) -> Vec<(String, u64)> {
        let mut held: BTreeMap<&str, u64> = BTreeMap::new();
        for (holder, devices) in nodes.filter_map(|node| self.held.get(node)).flatten() {
            *held.entry(holder).or_default() += devices;
        }
        let mut held: Vec<(String, u64)> = held
            .into_iter()
            .map(|(holder, devices)| (holder.to_owned(), devices))
            .collect();
        held.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        held
    }

    /// Whether other holders wait for devices that may come from one of these nodes. Only node
    /// selectors are checked.
    pub fn has_rivals(&self, waiting_holder: &str, nodes: &[&Node]) -> bool {
        let may_run = |pod: &WaitingPod, node: &Node| {
            pod.selector
                .iter()
                .all(|(key, value)| node.labels.get(key) == Some(value))
        };
        let rival = |pod: &WaitingPod| {
            pod.devices > 0
                && pod.holder != waiting_holder
                && nodes.iter().any(|node| may_run(pod, node))
        };
        self.waiting.iter().any(rival)
    }

    /// The holder that requests most of a machine resource (CPU or memory) on these nodes.
    pub fn most_of<'n>(
        &self,
        resource: &str,
        nodes: impl Iterator<Item = &'n str>,
    ) -> Option<(String, i128)> {
        let mut held: BTreeMap<&str, i128> = BTreeMap::new();
        for (holder, amounts) in nodes.filter_map(|node| self.machine.get(node)).flatten() {
            *held.entry(holder).or_default() += amounts.get(resource).copied().unwrap_or(0);
        }
        held.into_iter()
            .filter(|(_, amount)| *amount > 0)
            .max_by_key(|(_, amount)| *amount)
            .map(|(a, b)| (a.to_owned(), b))
    }
}
