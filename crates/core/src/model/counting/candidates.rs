//! The free resources of nodes, the pods that hold their devices, and the pods that wait for
//! devices. Other modules read these facts from the API server.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::capacity::Amounts;
use crate::model::facts::node::Node;

/// The free resources of nodes, and the pods that hold their devices.
#[derive(Clone, Debug, Default)]
pub struct ClusterCapacity {
    /// Keyed by node. An amount is negative if the pods request more than the node's allocatable
    /// amount.
    pub free: BTreeMap<String, Amounts>,
    /// Devices in use, keyed by node and then by holder. The holder is the NAMESPACE/NAME of the
    /// job, or else of the pod's owner, or else of the pod.
    pub held: BTreeMap<String, BTreeMap<String, u64>>,
    /// CPU and memory in use, in thousandths. The keys are the same as in `held`.
    pub machine: BTreeMap<String, BTreeMap<String, Amounts>>,
    /// The pods that are bound to a node, keyed by node.
    pub placed: BTreeMap<String, Vec<PlacedPod>>,
    /// The claims that pods mount, as namespace and name, keyed by node.
    pub claims: BTreeMap<String, BTreeSet<(String, String)>>,
    /// Pods that are not bound to a node.
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
    /// Lists the holders of devices on these nodes, starting with the one that holds the most.
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

    /// Whether other holders wait for devices that may come from one of these nodes. It checks only
    /// node selectors.
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

    /// Finds the holder that requests the most of a machine resource (CPU or memory) on these
    /// nodes.
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
