//! Facts for placing pods: free resources of nodes, the pods that hold devices, and the pods that
//! wait for them. Other modules read these facts from the API server.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::capacity::Amounts;
use crate::model::facts::node::Node;

/// Free and held resources of all nodes, and the waiting pods.
#[derive(Clone, Debug, Default)]
pub struct ClusterCapacity {
    /// Free amounts by node. An amount is negative if the pods request more than is allocatable.
    pub free: BTreeMap<String, Amounts>,
    /// Number of held devices by node and holder. A holder is the NAMESPACE/NAME of a job, or of
    /// the pod's owner or the pod if it belongs to no job.
    pub held: BTreeMap<String, BTreeMap<String, u64>>,
    /// Requested CPU and memory in thousandths, with the same keys as `held`.
    pub machine: BTreeMap<String, BTreeMap<String, Amounts>>,
    /// Pods that are bound to a node, by node.
    pub placed: BTreeMap<String, Vec<PlacedPod>>,
    /// The claims that pods mount, as namespace and name, keyed by node.
    pub claims: BTreeMap<String, BTreeSet<(String, String)>>,
    /// Pods that are not bound to a node.
    pub waiting: Vec<WaitingPod>,
}

/// A pod that is bound to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacedPod {
    /// NAMESPACE/NAME of the holder, as in `ClusterCapacity::held`.
    pub holder: String,
    pub priority: i64,
    pub devices: u64,
    pub amounts: Amounts,
    pub started_at: Option<Timestamp>,
}

/// A pod that is not bound to a node yet.
#[derive(Clone, Debug, Default)]
pub struct WaitingPod {
    /// NAMESPACE/NAME of the holder, as in `ClusterCapacity::held`.
    pub holder: String,
    pub priority: i64,
    pub devices: u64,
    /// Node on which the scheduler preempts other pods for this one (`status.nominatedNodeName`).
    pub nominated: Option<String>,
    /// Node selector of the pod.
    pub selector: BTreeMap<String, String>,
}

impl ClusterCapacity {
    /// Returns the holders of devices on these nodes, the largest first.
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

    /// Returns true if other holders wait for devices and could get them on one of these nodes.
    /// Checks node selectors only.
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

    /// Returns the holder that requests the most CPU or memory on these nodes.
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
