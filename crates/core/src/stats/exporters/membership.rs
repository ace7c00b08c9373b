//! Decides whether a store holds data about this cluster, by its nodes and pods. A configured address
//! may be the Prometheus of another cluster, whose nodes can have the same names.

use std::collections::BTreeSet;

use crate::model::Series;

/// Maximum number of node names in a message.
const MAX_NODES: usize = 3;

/// Facts from the API server and the store.
#[derive(Clone, Debug, Default)]
pub struct StoreEvidence {
    /// Some nodes of this cluster, as (name, addresses).
    pub own_nodes: Vec<(String, Vec<String>)>,
    /// True if the store has a pod with the UID of a pod of this cluster.
    pub has_own_pod: bool,
    /// Nodes that kube-state-metrics reports, the response to [`super::query::NODES`].
    pub reported: Vec<Series>,
}

/// Nodes of another cluster that a store has data about, and nodes of this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignStore {
    pub reported: BTreeSet<String>,
    pub own_nodes: BTreeSet<String>,
}

impl StoreEvidence {
    /// Returns the nodes of both clusters if none of the store's nodes and pods belong to this
    /// cluster, or `None` without proof.
    pub fn foreign(&self) -> Option<ForeignStore> {
        let name = |series: &Series| series.label("node").map(ToOwned::to_owned);
        let reported: BTreeSet<String> = self.reported.iter().filter_map(name).collect();
        let is_unknown = reported.is_empty() || self.own_nodes.is_empty();
        if is_unknown || self.has_own_pod || self.reported.iter().any(|node| self.is_own(node)) {
            return None;
        }
        let own_nodes = self.own_nodes.iter().map(|(name, _)| name.clone());
        Some(ForeignStore {
            reported,
            own_nodes: own_nodes.collect(),
        })
    }

    /// Returns true if a node has the name of an own node, and its address if both are known.
    fn is_own(&self, reported: &Series) -> bool {
        let address = reported.label("internal_ip");
        self.own_nodes.iter().any(|(name, addresses)| {
            let is_same = |address: &str| addresses.iter().any(|own| own == address);
            reported.label("node") == Some(name)
                && (addresses.is_empty() || address.is_none_or(is_same))
        })
    }
}

impl ForeignStore {
    /// Describes both clusters for a message.
    pub fn message(&self, server: &str) -> String {
        let list = |names: &BTreeSet<String>| {
            let ellipsis = if names.len() > MAX_NODES { ", …" } else { "" };
            let shown: Vec<&str> = names.iter().take(MAX_NODES).map(String::as_str).collect();
            format!("{}{ellipsis}", shown.join(", "))
        };
        format!(
            "Prometheus at {server} has data about the nodes {}, but none about this cluster's nodes \
             ({}) and pods",
            list(&self.reported),
            list(&self.own_nodes)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(reported: &[(&str, &str)], own: &[(&str, &str)]) -> StoreEvidence {
        let series = |(node, address): &(&str, &str)| Series {
            labels: [("node", *node), ("internal_ip", *address)]
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            points: Vec::new(),
        };
        let node = |(name, address): &(&str, &str)| {
            let addresses = Some((*address).to_owned()).filter(|address| !address.is_empty());
            ((*name).to_owned(), addresses.into_iter().collect())
        };
        StoreEvidence {
            own_nodes: own.iter().map(node).collect(),
            has_own_pod: false,
            reported: reported.iter().map(series).collect(),
        }
    }

    #[test]
    fn store_without_own_nodes_and_pods_is_foreign() {
        let prod = evidence(&[("a", ""), ("b", ""), ("c", ""), ("d", "")], &[("x", "")]);
        assert_eq!(
            prod.foreign().unwrap().message("http://p"),
            "Prometheus at http://p has data about the nodes a, b, c, …, but none about this \
             cluster's nodes (x) and pods"
        );
        let with_pod = StoreEvidence {
            has_own_pod: true,
            ..prod
        };
        assert_eq!(with_pod.foreign(), None);
        // Without nodes of either side, nothing is proven.
        assert_eq!(evidence(&[], &[("x", "")]).foreign(), None);
        assert_eq!(evidence(&[("a", "")], &[]).foreign(), None);
        assert_eq!(
            evidence(&[("a", ""), ("x", "")], &[("x", "")]).foreign(),
            None
        );
    }

    #[test]
    fn equal_names_with_other_addresses_are_other_nodes() {
        let same_name = |reported, own| {
            evidence(&[("gpu-m-01", reported)], &[("gpu-m-01", own)])
                .foreign()
                .is_some()
        };
        assert!(same_name("10.0.0.1", "10.9.0.1"));
        assert!(!same_name("10.0.0.1", "10.0.0.1"));
        assert!(!same_name("", "10.9.0.1"));
        assert!(!same_name("10.0.0.1", ""));
    }
}
