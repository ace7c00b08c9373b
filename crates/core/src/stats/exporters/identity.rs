//! Determines the device, node and pod of a series, for the label names of any exporter and scrape
//! configuration. Nodes and pods from the API server resolve ambiguous labels.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::model::counting::consumer::PodNodes;
use crate::model::facts::reading::PodKey;
use crate::model::{Consumers, Inventory, Series};

use super::dialect;
use super::dialect::{
    DIALECTS, EXPORTED_POD, ExporterMetric, NODE_ADDRESS, PLAIN_POD, Quantity, SliceLabels,
};
use super::node_index::{NodeIndex, is_own_name};
use super::targets::ClashingTargets;

/// Facts from the API server for interpreting labels.
#[derive(Debug, Default)]
pub struct ApiFacts {
    /// Nodes by name and address, or `None` if nodes cannot be listed.
    nodes: Option<NodeIndex>,
    /// Nodes by pod, or `None` if pods cannot be listed.
    pods: Option<PodNodes>,
    /// Pods that hold devices.
    holders: BTreeSet<PodKey>,
    /// Pods that use the device of a pod that only reserves it.
    sharers: BTreeMap<PodKey, Vec<PodKey>>,
}

impl ApiFacts {
    /// Takes the facts from an inventory and the pods behind it.
    pub fn from_inventory(inventory: &Inventory, consumers: Option<&Consumers>) -> Self {
        let mut aliases = Vec::new();
        let mut holders = BTreeSet::new();
        for host in &inventory.hosts {
            for alias in host
                .details
                .addresses
                .iter()
                .map(String::as_str)
                .chain([host.name()])
            {
                aliases.push((alias.to_owned(), host.name().to_owned()));
            }
            holders.extend(
                host.holders
                    .iter()
                    .map(|holder| (holder.namespace.to_string(), holder.pod.to_string())),
            );
        }
        let pods = consumers.map(|consumers| consumers.pod_nodes().clone());
        let sharers = consumers.map(Consumers::sharers).unwrap_or_default();
        holders.extend(sharers.keys().cloned());
        Self {
            nodes: Some(NodeIndex::new(aliases)).filter(|nodes| !nodes.is_empty()),
            pods,
            holders,
            sharers,
        }
    }

    /// Takes the facts from pods that hold devices, as ((namespace, name), node), for callers that
    /// do not list the rest of the cluster.
    pub fn from_pods(pods: impl IntoIterator<Item = (PodKey, String)>) -> Self {
        let (mut bound, mut holders) = (PodNodes::default(), BTreeSet::new());
        for (pod, node) in pods {
            bound.insert(&pod.0, &pod.1, node.into());
            holders.insert(pod);
        }
        Self {
            nodes: None,
            pods: Some(bound),
            holders,
            sharers: BTreeMap::new(),
        }
    }

    /// Takes the facts from pods that held devices in the past, and the names of nodes by name and
    /// address.
    pub(crate) fn for_past(
        nodes: BTreeMap<String, String>,
        pods: impl IntoIterator<Item = (PodKey, String)>,
    ) -> Self {
        Self {
            nodes: Some(NodeIndex::new(nodes)).filter(|nodes| !nodes.is_empty()),
            ..Self::from_pods(pods)
        }
    }

    fn node_of(&self, namespace: &str, pod: &str) -> Option<&str> {
        self.pods.as_ref()?.node(namespace, pod)
    }

    /// Finds the node that the labels of a series name: by name, by address, or by the exporter's
    /// pod or the pod that holds the device.
    fn node_of_series(&self, series: &Series) -> Option<&str> {
        let nodes = self.nodes.as_ref()?;
        let found = dialect::node_labels()
            .chain(NODE_ADDRESS)
            .filter_map(|label| series.label(label))
            .find_map(|text| nodes.find(text));
        found.or_else(|| self.node_by_pod(series))
    }

    /// Finds the node by a pod in the labels. Pods of other clusters can have the same names, so a
    /// label with an unknown node rules out the pods that hold devices.
    fn node_by_pod(&self, series: &Series) -> Option<&str> {
        let mut names = dialect::node_labels().filter_map(|label| series.label(label));
        let exporter = series.label(PLAIN_POD.0).zip(series.label(PLAIN_POD.1));
        let is_of_pod = |name: &str| exporter.is_some_and(|(_, pod)| pod == name);
        let is_unnamed = names.all(|name| is_own_name(name) || is_of_pod(name));
        let is_holder = |(namespace, pod): (&str, &str)| {
            self.holders
                .contains(&(namespace.to_owned(), pod.to_owned()))
        };
        let holders = dialect::holder_labels()
            .filter_map(|(namespace, pod)| series.label(namespace).zip(series.label(pod)));
        exporter
            .filter(|pod| is_unnamed || !is_holder(*pod))
            .into_iter()
            .chain(holders.filter(|_| is_unnamed))
            .find_map(|(namespace, pod)| self.node_of(namespace, pod))
    }
}

/// A device as identified by the labels of a series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesDevice {
    pub node: String,
    pub uuid: Option<String>,
    pub index: Option<u32>,
    /// Profile and number of the instance.
    pub slice: Option<(String, u32)>,
}

impl SeriesDevice {
    /// Returns the board of an instance. Errors belong to the board, so instances share them.
    #[must_use]
    pub fn without_slice(self) -> Self {
        Self {
            slice: None,
            ..self
        }
    }

    /// Returns true if the series can describe this device. Power is that of the whole board, so it
    /// does not describe a slice (NVIDIA/dcgm-exporter#50 and #353). Some exporters report a
    /// quantity only for the first slice of a device, and zero for the other slices.
    pub fn reports(&self, series: &Series, quantity: Quantity) -> bool {
        if self.slice.is_some() && matches!(quantity, Quantity::Power | Quantity::PowerLimit) {
            return false;
        }
        let is_zero_on_others = || {
            dialect::dialect_of(series.name())
                .is_some_and(|dialect| dialect.first_slice_only.contains(&quantity))
        };
        !(self.slice.as_ref().is_some_and(|(_, number)| *number > 0) && is_zero_on_others())
    }

    /// Returns true if a value describes this device. A zero of an instance proves nothing if the
    /// metric is defined only for whole devices.
    pub(crate) fn describes(&self, metric: &ExporterMetric, value: f64) -> bool {
        value > 0.0 || self.slice.is_none() || !metric.whole_devices_only
    }

    /// Returns the precedence of a metric for this device; the lowest rank wins. For an instance,
    /// metrics that are defined for instances take precedence.
    pub(crate) fn rank(&self, metric: &ExporterMetric) -> u8 {
        /// Higher than the ranks of all other metrics with labels of instances.
        const UNDEFINED: u8 = 7;
        match self.slice.is_some() && metric.whole_devices_only {
            true => metric.rank + UNDEFINED,
            false => metric.rank,
        }
    }
}

/// Determines the devices and pods of the series in one query result.
pub struct IdentityReader<'f> {
    facts: &'f ApiFacts,
    clashing: ClashingTargets,
    answer: &'f [Series],
    /// Nodes by device UUID. Computed for the first series that does not name its node.
    by_uuid: OnceCell<BTreeMap<String, String>>,
}

impl<'f> IdentityReader<'f> {
    pub fn new(facts: &'f ApiFacts, answer: &'f [Series]) -> Self {
        Self {
            facts,
            clashing: ClashingTargets::new(answer),
            answer,
            by_uuid: OnceCell::new(),
        }
    }

    /// Returns the device of a series, or `None` if its node is not in this cluster or the labels
    /// identify no device.
    pub fn device(&self, series: &Series) -> Option<SeriesDevice> {
        let uuid = dialect::uuid(series);
        let index = dialect::index(series);
        if (uuid.is_none() && index.is_none()) || dialect::is_of_a_part(series) {
            return None;
        }
        let node = match &self.facts.nodes {
            // Without the right to list nodes, the label cannot be checked.
            None => unchecked_node(series)?.to_owned(),
            Some(_) => match self.facts.node_of_series(series) {
                Some(node) => node.to_owned(),
                None => {
                    let nodes = || nodes_by_uuid(self.facts, self.answer);
                    self.by_uuid.get_or_init(nodes).get(uuid.as_ref()?)?.clone()
                }
            },
        };
        let slice = DIALECTS
            .iter()
            .filter_map(|dialect| dialect.slice)
            .find_map(|labels| slice(series, labels));
        Some(SeriesDevice {
            node,
            uuid,
            index,
            slice,
        })
    }

    /// Returns the label and the value that should name the node of a device, but match none.
    pub fn unmatched(&self, series: &Series) -> Option<(&'static str, String)> {
        let has_device = dialect::uuid(series).is_some() || dialect::index(series).is_some();
        if !has_device || dialect::is_of_a_part(series) || self.device(series).is_some() {
            return None;
        }
        let value = |label: &'static str| Some((label, series.label(label)?.to_owned()));
        dialect::node_labels().chain(NODE_ADDRESS).find_map(value)
    }

    /// Returns the pod that holds the device, or `None` if the device is free. Ignores the
    /// exporter's own pod, terminated pods and pods on other nodes.
    pub fn holder(&self, series: &Series, node: &str) -> Option<PodKey> {
        let key = self.named_pod(series)?;
        if self.facts.pods.is_none() {
            return Some(key);
        }
        // Without the right to list nodes, the label may be an alias, so a different name proves
        // nothing.
        let is_on_node = |pod_node: &&str| *pod_node == node || self.facts.nodes.is_none();
        let bound = self.facts.node_of(&key.0, &key.1).filter(is_on_node);
        bound
            .filter(|_| self.facts.holders.contains(&key))
            .map(|_| key)
    }

    /// Returns the pods that use the device of a holder: itself, or the pods that it reserves the
    /// device for.
    pub(crate) fn users(&self, holder: PodKey) -> Vec<PodKey> {
        match self.facts.sharers.get(&holder) {
            Some(sharers) => sharers.clone(),
            None => vec![holder],
        }
    }

    /// Returns the pod in the labels, whether or not it still exists.
    pub fn named_pod(&self, series: &Series) -> Option<PodKey> {
        let both =
            |(namespace, pod): (&str, &str)| Some((series.label(namespace)?, series.label(pod)?));
        // Some exporters use their own label for the pod, but a common label for the namespace.
        let mixed = || {
            let pod = dialect::holder_labels()
                .filter(|pair| *pair != EXPORTED_POD)
                .find_map(|(_, pod)| series.label(pod));
            Some((series.first([EXPORTED_POD.0, PLAIN_POD.0])?, pod?))
        };
        // Without clashing labels, these name the exporter's own pod while the device is free.
        let plain = || {
            let exporter = series
                .label("container")
                .is_some_and(dialect::is_exporter_container);
            both(PLAIN_POD).filter(|_| !exporter && !self.clashing.is_exporter_pod(series))
        };
        let (namespace, pod) = dialect::holder_labels()
            .find_map(both)
            .or_else(mixed)
            .or_else(plain)?;
        Some((namespace.to_owned(), pod.to_owned()))
    }

    /// Returns the model of the device as the exporter names it.
    pub fn model(series: &Series) -> Option<&str> {
        dialect::dialect_of(series.name())
            .and_then(|dialect| series.first(dialect.model.iter().copied()))
    }
}

/// Returns the name or address of the node in a series, without checking that the node exists.
fn unchecked_node(series: &Series) -> Option<&str> {
    let named = dialect::node_labels().filter_map(|label| series.label(label));
    named
        .filter(|name| !is_own_name(name))
        .chain(
            NODE_ADDRESS
                .into_iter()
                .filter_map(|label| series.label(label)),
        )
        .next()
}

/// Collects the nodes of devices by UUID. Another exporter may report the same device.
fn nodes_by_uuid(facts: &ApiFacts, answer: &[Series]) -> BTreeMap<String, String> {
    let node = |series: &Series| {
        Some((
            dialect::uuid(series)?,
            facts.node_of_series(series)?.to_owned(),
        ))
    };
    answer.iter().filter_map(node).collect()
}

/// Values of AMD's partition type labels that name no mode. The exporter writes `none` for boards
/// that cannot be partitioned (ROCm/device-metrics-exporter#135, `GPUComputePartitionType` of its
/// protocol).
const UNKNOWN_MODES: [&str; 3] = ["none", "n/a", "unknown"];

/// Returns the slice of a device as (kind, number), or `None` for a whole device. The kind is a
/// profile such as `1g.10gb`, or partitioning modes such as `cpx_nps4`.
fn slice(series: &Series, labels: SliceLabels) -> Option<(String, u32)> {
    let number = |label: &str| {
        series
            .label(label)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    };
    match labels {
        SliceLabels::Profile {
            profile,
            number: number_label,
        } => Some((series.label(profile)?.to_owned(), number(number_label))),
        SliceLabels::Modes {
            compute,
            memory,
            number: number_label,
        } => {
            let number = number(number_label);
            let is_known = |mode: &String| !UNKNOWN_MODES.contains(&mode.as_str());
            let compute = match series.label(compute)?.to_lowercase() {
                mode if mode == "spx" => return None,
                mode if is_known(&mode) => mode,
                _ if number == 0 => return None,
                // The exporter cannot read the mode of a partition other than the first.
                _ => "unknown".to_owned(),
            };
            let memory = series.label(memory).map(str::to_lowercase).filter(is_known);
            let memory = memory.unwrap_or_else(|| "nps1".to_owned());
            Some((format!("{compute}_{memory}"), number))
        }
    }
}

#[cfg(test)]
mod tests;
