//! Assigns GPUs to the pods that hold them, from nodes, pods and DRA devices, for all commands.
//! Whole devices and slices are counted separately. Usage that the user cannot read is unknown, not
//! zero.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::consumer::{Consumer, Consumers};
pub use super::count::Count;
use super::host_tally::host_use;
use super::node_usage::{Device, NodeUsage};
use crate::model::facts::host::NodeDetails;
use crate::model::values::natural;

/// The GPUs of a cluster by node.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    pub hosts: Vec<NodeUsage>,
}

impl Inventory {
    /// Counts devices and their holders. `consumers` is `None` if the user cannot list the pods of
    /// all namespaces.
    pub fn new(hosts: Vec<NodeDetails>, consumers: Option<&Consumers>, devices: &[Device]) -> Self {
        let mut by_node: BTreeMap<&str, Vec<&Consumer>> = BTreeMap::new();
        let with_devices = consumers
            .map(|cluster_consumers| cluster_consumers.with_devices.as_slice())
            .unwrap_or_default();
        // A bound pod holds its devices even while it pulls images or terminates.
        for (node, consumer) in with_devices
            .iter()
            .filter_map(|consumer| Some((consumer.node.as_deref()?, consumer)))
        {
            by_node.entry(node).or_default().push(consumer);
        }
        // The index by name is needed only to resolve the holders of claims.
        let are_claimed = devices.iter().any(|device| device.held_by.is_some());
        let claimed = with_devices.iter().filter(|_| are_claimed);
        let by_name: HashMap<(&str, &str), &Consumer> = claimed
            .map(|pod| ((&*pod.namespace, &*pod.name), pod))
            .collect();
        let mut offered: HashMap<&str, Vec<&Device>> = HashMap::new();
        devices
            .iter()
            .for_each(|device| offered.entry(&device.node).or_default().push(device));
        let mut hosts: Vec<NodeUsage> = hosts
            .into_iter()
            .map(|host| {
                let name = host.node.name.clone();
                let node_pods = by_node.remove(name.as_str()).unwrap_or_default();
                let devices = offered.remove(name.as_str()).unwrap_or_default();
                let others = consumers.map(|cluster_consumers| cluster_consumers.others_on(&name));
                host_use(host, &node_pods, others, &devices, &by_name)
            })
            .collect();
        hosts.sort_by(|a, b| natural::compare(a.name(), b.name()));
        Self { hosts }
    }

    /// Returns the sum of whole devices over all nodes.
    pub fn gpus(&self) -> Count {
        total(self.hosts.iter().map(|host| host.gpus))
    }

    pub fn pool<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a NodeUsage> {
        self.hosts
            .iter()
            .filter(move |host| host.details.node.pool() == Some(pool))
    }

    /// Returns the pools that have at least one node.
    pub fn pools(&self) -> BTreeSet<&str> {
        self.hosts
            .iter()
            .filter_map(|host| host.details.node.pool())
            .collect()
    }
}

/// Sums counts. If the usage of any count is unknown, the usage of the sum is too.
pub fn total(counts: impl Iterator<Item = Count>) -> Count {
    let mut sum = Count::usable_units(0, Some(0));
    counts.for_each(|count| sum.add(count));
    sum
}

#[cfg(test)]
mod tests;
