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

/// Whether a store belongs to this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreMembership {
    /// The store has a node or a pod of this cluster, or nothing can be compared.
    Own,
    /// Nodes have the names of nodes of this cluster, but the store has no addresses of them. Other
    /// clusters can have nodes with these names.
    NamesOnly(BTreeSet<String>),
    /// None of the store's nodes and pods belong to this cluster.
    Foreign(ForeignStore),
}

/// What the name and the addresses say about a node of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NodeMatch {
    Other,
    NameOnly,
    Own,
}

impl StoreEvidence {
    /// Decides whether the store belongs to this cluster.
    pub fn membership(&self) -> StoreMembership {
        let name = |series: &Series| series.label("node").map(ToOwned::to_owned);
        let names = |least: NodeMatch| -> BTreeSet<String> {
            let nodes = self.reported.iter();
            let nodes = nodes.filter(|node| self.compare(node) >= least);
            nodes.filter_map(name).collect()
        };
        let reported = names(NodeMatch::Other);
        let is_unknown = reported.is_empty() || self.own_nodes.is_empty();
        if is_unknown || self.has_own_pod || !names(NodeMatch::Own).is_empty() {
            return StoreMembership::Own;
        }
        let shared = names(NodeMatch::NameOnly);
        if !shared.is_empty() {
            return StoreMembership::NamesOnly(shared);
        }
        let own_nodes = self.own_nodes.iter().map(|(name, _)| name.clone());
        StoreMembership::Foreign(ForeignStore {
            reported,
            own_nodes: own_nodes.collect(),
        })
    }

    /// Compares a node with the own nodes. Without addresses of this cluster's nodes, which every
    /// kubelet reports, their names are enough.
    fn compare(&self, reported: &Series) -> NodeMatch {
        let own = self
            .own_nodes
            .iter()
            .find(|(name, _)| reported.label("node") == Some(name));
        let address = reported
            .label("internal_ip")
            .filter(|text| !text.is_empty());
        match (own, address) {
            (None, _) => NodeMatch::Other,
            (Some((_, addresses)), _) if addresses.is_empty() => NodeMatch::Own,
            (Some(_), None) => NodeMatch::NameOnly,
            (Some((_, addresses)), Some(address)) => {
                match addresses.iter().any(|own| own == address) {
                    true => NodeMatch::Own,
                    false => NodeMatch::Other,
                }
            }
        }
    }
}

/// Joins the first names of a set.
fn list(names: &BTreeSet<String>) -> String {
    let ellipsis = if names.len() > MAX_NODES { ", …" } else { "" };
    let shown: Vec<&str> = names.iter().take(MAX_NODES).map(String::as_str).collect();
    format!("{}{ellipsis}", shown.join(", "))
}

/// Describes a store that shares only names of nodes with this cluster.
pub fn names_only_message(nodes: &BTreeSet<String>, server: &str) -> String {
    format!(
        "Prometheus at {server} may belong to another cluster: it has nodes with the names {}, but \
         neither their addresses nor any of this cluster's pods",
        list(nodes)
    )
}

impl ForeignStore {
    /// Describes both clusters for a message.
    pub fn message(&self, server: &str) -> String {
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
            foreign(&prod).unwrap().message("http://p"),
            "Prometheus at http://p has data about the nodes a, b, c, …, but none about this \
             cluster's nodes (x) and pods"
        );
        let with_pod = StoreEvidence {
            has_own_pod: true,
            ..prod
        };
        assert_eq!(with_pod.membership(), StoreMembership::Own);
        // Without nodes of either side, nothing is proven.
        for (reported, own) in [
            (&[][..], &[("x", "")][..]),
            (&[("a", "")], &[]),
            (&[("a", ""), ("x", "")], &[("x", "")]),
        ] {
            assert_eq!(evidence(reported, own).membership(), StoreMembership::Own);
        }
    }

    fn foreign(evidence: &StoreEvidence) -> Option<ForeignStore> {
        match evidence.membership() {
            StoreMembership::Foreign(foreign) => Some(foreign),
            StoreMembership::Own | StoreMembership::NamesOnly(_) => None,
        }
    }

    #[test]
    fn equal_names_need_equal_addresses() {
        let same_name =
            |reported, own| evidence(&[("gpu-m-01", reported)], &[("gpu-m-01", own)]).membership();
        let other = same_name("10.0.0.1", "10.9.0.1");
        assert!(matches!(other, StoreMembership::Foreign(_)), "{other:?}");
        assert_eq!(same_name("10.0.0.1", "10.0.0.1"), StoreMembership::Own);
        assert_eq!(same_name("10.0.0.1", ""), StoreMembership::Own);
        // Every cluster can have a node of this name.
        let nodes = BTreeSet::from(["gpu-m-01".to_owned()]);
        assert_eq!(
            same_name("", "10.9.0.1"),
            StoreMembership::NamesOnly(nodes.clone())
        );
        assert!(names_only_message(&nodes, "http://p").contains("the names gpu-m-01, but"));
        // One node with the own address, or one of the own pods, is enough.
        let two = evidence(
            &[("a", ""), ("b", "10.0.0.2")],
            &[("a", "10.0.0.1"), ("b", "10.0.0.2")],
        );
        assert_eq!(two.membership(), StoreMembership::Own);
        let with_pod = StoreEvidence {
            has_own_pod: true,
            ..evidence(&[("a", "")], &[("a", "10.0.0.1")])
        };
        assert_eq!(with_pod.membership(), StoreMembership::Own);
    }
}
