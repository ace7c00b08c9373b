//! Decides which device, node and pod a series is about, whatever the exporter and the scrape
//! configuration name them. The API server's view of nodes and pods decides where labels are
//! ambiguous.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::counting::consumer::PodNodes;
use crate::model::facts::reading::PodKey;
use crate::model::{Consumers, Inventory, Series};

use super::dialect;
use super::dialect::{DIALECTS, EXPORTED_POD, NODE_ADDRESS, PLAIN_POD, Quantity, SliceLabels};

/// What the API server knows, as far as labels need it.
#[derive(Debug, Default)]
pub struct ApiFacts {
    /// Names and addresses of nodes; `None` when they may not be listed.
    nodes: Option<BTreeMap<String, String>>,
    /// `None` when pods may not be listed.
    pods: Option<PodNodes>,
    /// Pods that hold devices.
    holders: BTreeSet<PodKey>,
}

impl ApiFacts {
    /// From an inventory and the pods that it was counted from.
    pub fn of(inventory: &Inventory, consumers: Option<&Consumers>) -> Self {
        let mut nodes = BTreeMap::new();
        let mut holders = BTreeSet::new();
        for host in &inventory.hosts {
            for alias in host
                .details
                .addresses
                .iter()
                .map(String::as_str)
                .chain([host.name()])
            {
                nodes.insert(alias.to_owned(), host.name().to_owned());
            }
            holders.extend(
                host.holders
                    .iter()
                    .map(|holder| (holder.namespace.to_string(), holder.pod.to_string())),
            );
        }
        let pods = consumers.map(|consumers| consumers.pod_nodes().clone());
        Self {
            nodes: Some(nodes).filter(|nodes| !nodes.is_empty()),
            pods,
            holders,
        }
    }

    /// From pods that hold devices, as ((namespace, name), node), where the rest of the cluster is
    /// not looked at.
    pub fn of_pods(pods: impl IntoIterator<Item = (PodKey, String)>) -> Self {
        let (mut bound, mut holders) = (PodNodes::default(), BTreeSet::new());
        for (pod, node) in pods {
            bound.insert(&pod.0, &pod.1, node.into());
            holders.insert(pod);
        }
        Self {
            nodes: None,
            pods: Some(bound),
            holders,
        }
    }

    /// From pods that held devices at some time, and the names and addresses of nodes, as far as
    /// they are known.
    pub(crate) fn of_past(
        nodes: BTreeMap<String, String>,
        pods: impl IntoIterator<Item = (PodKey, String)>,
    ) -> Self {
        Self {
            nodes: Some(nodes).filter(|nodes| !nodes.is_empty()),
            ..Self::of_pods(pods)
        }
    }

    /// Returns the node that a pod is bound to.
    fn node_of(&self, namespace: &str, pod: &str) -> Option<&str> {
        self.pods.as_ref()?.of(namespace, pod)
    }

    /// Returns the node that a label's value means.
    fn node(&self, text: &str) -> Option<&str> {
        let Some(nodes) = &self.nodes else {
            return None;
        };
        if let Some(node) = nodes.get(text) {
            return Some(node);
        }
        let host = text
            .rsplit_once(':')
            .map_or(text, |(host, _)| host)
            .trim_matches(['[', ']']);
        // `gpu-1.example.com` is `gpu-1`, an address is nothing shorter.
        let short = host
            .split_once('.')
            .map(|(short, _)| short)
            .filter(|short| short.parse::<u32>().is_err());
        [Some(host), short]
            .into_iter()
            .flatten()
            .find_map(|name| nodes.get(name))
            .map(String::as_str)
    }
}

/// A device as a series names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesDevice {
    pub node: String,
    pub uuid: Option<String>,
    pub index: Option<u32>,
    /// Profile and number of an instance.
    pub slice: Option<(String, u32)>,
}

impl SeriesDevice {
    /// Returns false where a series of this part is zero because only the first part of the device
    /// tells the quantity.
    pub fn tells(&self, series: &Series, quantity: Quantity) -> bool {
        let of_first_slice = || {
            dialect::dialect_of(series.name())
                .is_some_and(|own| own.of_first_slice.contains(&quantity))
        };
        !(self.slice.as_ref().is_some_and(|(_, number)| *number > 0) && of_first_slice())
    }
}

/// Reads identities of one answer.
pub struct IdentityReader<'f> {
    facts: &'f ApiFacts,
    /// Scrape jobs whose own labels clash with the exporter's: `pod` is the exporter's there.
    clashing: BTreeSet<String>,
}

impl<'f> IdentityReader<'f> {
    pub fn new(facts: &'f ApiFacts, answer: &[Series]) -> Self {
        let clashing = answer
            .iter()
            .filter(|series| series.label("exported_pod").is_some())
            .map(job)
            .collect();
        Self { facts, clashing }
    }

    /// Returns the device; `None` when it is in no node of this cluster, or is not told.
    pub fn place(&self, series: &Series) -> Option<SeriesDevice> {
        let node = match (&self.facts.nodes, series.first(dialect::node_labels())) {
            (None, name) => name.or_else(|| series.first(NODE_ADDRESS))?.to_owned(),
            // A host with a name that is none of ours is another cluster's, unless the name is that
            // of the exporter's pod.
            (Some(_), Some(name)) => self
                .facts
                .node(name)
                .map(ToOwned::to_owned)
                .or_else(|| self.own_pod(series))?,
            (Some(_), None) => {
                let mut addresses = NODE_ADDRESS
                    .into_iter()
                    .filter_map(|label| series.label(label));
                let known = addresses.find_map(|text| self.facts.node(text));
                known
                    .map(ToOwned::to_owned)
                    .or_else(|| self.own_pod(series))?
            }
        };
        let uuid = series.first(dialect::uuid_labels()).map(ToOwned::to_owned);
        let index = series
            .first(dialect::index_labels())
            .and_then(|text| text.parse().ok());
        if uuid.is_none() && index.is_none() {
            return None;
        }
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

    /// Returns the node of the pod that the target's own labels name.
    fn own_pod(&self, series: &Series) -> Option<String> {
        self.facts
            .node_of(series.label("namespace")?, series.label("pod")?)
            .map(ToOwned::to_owned)
    }

    /// Returns the pod that holds the device; `None` for a free one. The exporter's own pod never
    /// holds it, nor does one that has ended or is on another node.
    pub fn holder(&self, series: &Series, node: &str) -> Option<PodKey> {
        let key = self.named_pod(series)?;
        if self.facts.pods.is_none() {
            return Some(key);
        }
        // A name of a node that cannot be looked up proves nothing.
        let there = |own: &&str| *own == node || self.facts.nodes.is_none();
        let found = self.facts.node_of(&key.0, &key.1).filter(there);
        found
            .filter(|_| self.facts.holders.contains(&key))
            .map(|_| key)
    }

    /// Returns the pod that the labels name, whether it is still there or not.
    pub fn named_pod(&self, series: &Series) -> Option<PodKey> {
        let both =
            |(namespace, pod): (&str, &str)| Some((series.label(namespace)?, series.label(pod)?));
        // Some exporters call the pod what clashes with nothing, and the namespace what does.
        let mixed = || {
            let pod = dialect::holder_labels()
                .filter(|pair| *pair != EXPORTED_POD)
                .find_map(|(_, pod)| series.label(pod));
            Some((series.first([EXPORTED_POD.0, PLAIN_POD.0])?, pod?))
        };
        // Without a clash these labels are the exporter's own pod where the device is free.
        let plain = || {
            let exporter = series
                .label("container")
                .is_some_and(dialect::is_own_container);
            both(PLAIN_POD).filter(|_| !exporter && !self.clashing.contains(&job(series)))
        };
        let (namespace, pod) = dialect::holder_labels()
            .find_map(both)
            .or_else(mixed)
            .or_else(plain)?;
        Some((namespace.to_owned(), pod.to_owned()))
    }

    /// Returns the exporter's name for the device.
    pub fn model(series: &Series) -> Option<&str> {
        dialect::dialect_of(series.name()).and_then(|own| series.first(own.model.iter().copied()))
    }
}

fn job(series: &Series) -> String {
    series.label("job").unwrap_or_default().to_owned()
}

/// Returns the part of a device that a series names, as (kind, number): `1g.10gb`, or `cpx_nps4`
/// for modes. A device that is not cut has none.
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
            number: place,
        } => Some((series.label(profile)?.to_owned(), number(place))),
        SliceLabels::Modes {
            compute,
            memory,
            number: place,
        } => {
            let compute = series
                .label(compute)
                .map(str::to_lowercase)
                .filter(|mode| mode != "spx")?;
            let memory = series
                .label(memory)
                .map_or_else(|| "nps1".to_owned(), str::to_lowercase);
            Some((format!("{compute}_{memory}"), number(place)))
        }
    }
}

#[cfg(test)]
mod tests;
