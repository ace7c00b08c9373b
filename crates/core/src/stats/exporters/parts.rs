//! Determines whether a unit of a node's resource was a whole GPU or a slice: for the past from
//! labels in kube-state-metrics, and for the present from the API server.

use std::collections::BTreeMap;

use crate::model::facts::gpu::{REPLICAS_LABEL, WHOLE, is_device};
use crate::model::facts::part::Part;
use crate::model::values::series::Series;
use crate::model::{Node, NodeUsage};

use super::kube_state::{clean, label};

#[derive(Clone, Debug, PartialEq)]
pub enum ResourceUnit {
    Device,
    Part(Part),
}

/// Slices that nodes offer, by node and resource, in the form of kube-state-metrics.
#[derive(Clone, Debug, Default)]
pub struct NodeParts {
    by_resource: BTreeMap<(String, String), Part>,
    claimable: BTreeMap<String, ClaimableNow>,
}

/// Devices of a node that are allocated only through DRA claims. kube-state-metrics does not count
/// them.
#[derive(Clone, Debug, Default)]
pub struct ClaimableNow {
    /// Creation time of the node in Unix milliseconds.
    pub since: Option<i64>,
    pub gpus: u64,
    pub parts: BTreeMap<String, u64>,
}

/// Label in kube-state-metrics with the product of NVIDIA devices at the time of the sample.
const PRODUCT: &str = "label_nvidia_com_gpu_product";
const REPLICAS: &str = "label_nvidia_com_gpu_replicas";

impl NodeParts {
    /// Reads the current state of nodes.
    pub fn from_nodes<'n>(nodes: impl Iterator<Item = &'n NodeUsage>) -> Self {
        let mut parts = Self::default();
        for host in nodes {
            let details = &host.details;
            let resources = || details.capacity.keys().chain(details.allocatable.keys());
            // The node's resources do not include devices that are allocated through claims.
            let by_name = resources().any(|resource| {
                is_device(resource)
                    || Part::read(&details.node, &details.capacity, resource).is_some()
            });
            if !by_name && host.has_gpus() {
                let since = details.created_at.map(jiff::Timestamp::as_millisecond);
                let parts_now = host
                    .slices
                    .iter()
                    .map(|(name, count)| (name.clone(), count.total))
                    .collect();
                parts.claimable.insert(
                    host.name().to_owned(),
                    ClaimableNow {
                        since,
                        gpus: host.gpus.total,
                        parts: parts_now,
                    },
                );
            }
            for resource in resources() {
                if let Some(part) = Part::read(&details.node, &details.capacity, resource) {
                    parts
                        .by_resource
                        .insert((details.node.name.clone(), clean(resource)), part);
                }
            }
        }
        parts
    }

    /// Returns the nodes whose devices are allocated only through claims.
    pub fn claimable(&self) -> impl Iterator<Item = (&String, &ClaimableNow)> {
        self.claimable.iter()
    }

    /// Replaces the current state with the state in the recorded labels, for nodes that have any.
    #[must_use]
    pub fn with_past_labels(mut self, labels: &[Series]) -> Self {
        for series in labels {
            let (Some(name), Some(product)) = (label(series, "node"), series.label(PRODUCT)) else {
                continue;
            };
            // The number of shares is in a separate label, which may not have been exported.
            if product.ends_with("-SHARED") && series.label(REPLICAS).is_none() {
                continue;
            }
            // `Part::read` needs the labels of a node, so rebuild them from the series.
            let mut node = Node {
                name: name.to_owned(),
                ..Node::default()
            };
            node.allocatable.insert(WHOLE[0].to_owned(), "1".to_owned());
            node.labels
                .insert("nvidia.com/gpu.product".to_owned(), product.to_owned());
            node.labels.extend(
                series
                    .label(REPLICAS)
                    .map(|text| (REPLICAS_LABEL.to_owned(), text.to_owned())),
            );
            let key = (name.to_owned(), clean(WHOLE[0]));
            match Part::read(&node, &BTreeMap::new(), WHOLE[0]) {
                Some(part) => {
                    self.by_resource.insert(key, part);
                }
                // Sharing by memory is recorded in an annotation, so these labels cannot rule it
                // out.
                None if self
                    .by_resource
                    .get(&key)
                    .is_some_and(|part| !part.by_memory) =>
                {
                    self.by_resource.remove(&key);
                }
                None => {}
            }
        }
        self
    }

    /// Classifies a unit of a resource on a node, or returns `None` if it is not a device.
    /// `resource` is in the form of kube-state-metrics.
    pub fn unit(&self, node: &str, resource: &str) -> Option<ResourceUnit> {
        if let Some(part) = self
            .by_resource
            .get(&(node.to_owned(), resource.to_owned()))
        {
            return Some(ResourceUnit::Part(part.clone()));
        }
        if WHOLE
            .iter()
            .any(|resource_name| clean(resource_name) == resource)
        {
            return Some(ResourceUnit::Device);
        }
        Part::from_label(resource).map(ResourceUnit::Part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Inventory, NodeDetails};

    #[test]
    fn past_labels_take_precedence() {
        let host = |name: &str, replicas: &str| {
            let mut node = Node {
                name: name.into(),
                ..Node::default()
            };
            node.labels.insert(REPLICAS_LABEL.into(), replicas.into());
            let capacity = [("nvidia.com/gpu".to_owned(), "8".to_owned())].into();
            NodeDetails {
                node,
                capacity,
                ..NodeDetails::default()
            }
        };
        let now = Inventory::new(
            vec![host("a", "4"), host("b", "4"), host("c", "1")],
            None,
            &[],
        );
        let series = |node: &str, product: &str, replicas: &str| {
            let labels = [("node", node), (PRODUCT, product), (REPLICAS, replicas)];
            Series {
                labels: labels
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into_iter()
                    .collect(),
                points: vec![],
            }
        };
        let then = [
            series("b", "NVIDIA-L4", "1"),
            series("c", "NVIDIA-L4-SHARED", "2"),
        ];
        let parts = NodeParts::from_nodes(now.hosts.iter()).with_past_labels(&then);
        let fraction = |node: &str| match parts.unit(node, "nvidia_com_gpu") {
            Some(ResourceUnit::Part(part)) => part.fraction,
            unit => {
                assert_eq!(unit, Some(ResourceUnit::Device), "{node}");
                None
            }
        };
        assert_eq!(
            (fraction("a"), fraction("b"), fraction("c")),
            (Some(0.25), None, Some(0.5))
        );
        assert_eq!(parts.unit("a", "cpu"), None);
        assert!(
            matches!(parts.unit("gone", "nvidia_com_mig_1g_10gb"), Some(ResourceUnit::Part(part)) if part.instance)
        );
    }
}
