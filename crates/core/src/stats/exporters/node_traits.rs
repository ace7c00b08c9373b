//! Determines the GPU type and the pool that nodes had in the past: from labels that
//! kube-state-metrics recorded, else from the nodes of the API server, else, for deleted nodes, from
//! the product that their exporter named.

use std::collections::{BTreeMap, BTreeSet};

use super::kube_state::{label, label_key};
use crate::model::NodeUsage;
use crate::model::contract::labels::POOL_LABEL;
use crate::model::facts::gpu::{GpuType, TYPE_LABELS};
use crate::model::values::series::Series;

/// The GPU type and the pool of a node. `None` where no source names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeTraits {
    /// Normalized, such as `a100-80g`.
    pub gpu_type: Option<String>,
    pub pool: Option<String>,
}

/// The traits of all nodes. Add the hours of a window in the order of time: a node whose labels are
/// missing in an hour keeps those of the hour before.
#[derive(Clone, Debug, Default)]
pub struct NodeCatalog {
    by_node: BTreeMap<String, NodeTraits>,
    /// GPU types from products that exporters named.
    products: BTreeMap<String, String>,
    /// Names in kube-state-metrics of the labels that the site configured for GPU types.
    site_type_labels: BTreeSet<String>,
}

impl NodeCatalog {
    /// Reads the nodes that exist now.
    pub fn from_nodes<'n>(hosts: impl Iterator<Item = &'n NodeUsage>) -> Self {
        let mut catalog = Self::default();
        for host in hosts {
            let node = &host.details.node;
            let site_label = node.site_type_label.as_deref().map(recorded_key);
            catalog.site_type_labels.extend(site_label);
            let traits = NodeTraits {
                gpu_type: node.gpu_type().map(|gpu_type| gpu_type.to_string()),
                pool: node.pool().map(ToOwned::to_owned),
            };
            catalog.by_node.insert(host.name().to_owned(), traits);
        }
        catalog
    }

    /// Replaces the traits of nodes by those in recorded labels (`kube_node_labels`).
    pub fn add_labels(&mut self, labels: &[Series]) {
        for series in labels {
            let Some(node) = label(series, "node") else {
                continue;
            };
            let value = |key: &str| series.label(key).filter(|value| !value.is_empty());
            let of_site = self.site_type_labels.iter().find_map(|key| value(key));
            let known = || TYPE_LABELS.iter().find_map(|key| value(&recorded_key(key)));
            let gpu_type = of_site.or_else(known).or_else(|| other_type(series));
            let pool = value(&recorded_key(POOL_LABEL));
            if gpu_type.is_none() && pool.is_none() {
                continue;
            }
            let traits = self.by_node.entry(node.to_owned()).or_default();
            if let Some(gpu_type) = gpu_type.and_then(GpuType::parse) {
                traits.gpu_type = Some(gpu_type.to_string());
            }
            traits.pool = pool.map(ToOwned::to_owned).or(traits.pool.take());
        }
    }

    /// Adds the products that exporters named, as pairs of node and product. Ignores nodes with
    /// several products, because pods may have held any of them.
    pub fn add_products<'p>(&mut self, products: impl Iterator<Item = (&'p str, &'p str)>) {
        let mut by_node: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (node, product) in products {
            if let Some(gpu_type) = GpuType::parse(product) {
                by_node
                    .entry(node)
                    .or_default()
                    .insert(gpu_type.to_string());
            }
        }
        for (node, mut types) in by_node {
            match types.pop_first().filter(|_| types.is_empty()) {
                Some(gpu_type) => self.products.insert(node.to_owned(), gpu_type),
                None => self.products.remove(node),
            };
        }
    }

    /// Returns the traits of a node.
    pub fn traits(&self, node: &str) -> NodeTraits {
        let NodeTraits { gpu_type, pool } = self.by_node.get(node).cloned().unwrap_or_default();
        NodeTraits {
            gpu_type: gpu_type.or_else(|| self.products.get(node).cloned()),
            pool,
        }
    }
}

/// The name of a node label in `kube_node_labels`.
fn recorded_key(key: &str) -> String {
    format!("label_{}", label_key(key))
}

/// The value of another label with a GPU type. See [`crate::model::facts::gpu::is_type_label`].
fn other_type(series: &Series) -> Option<&str> {
    let is_type = |name: &str| {
        name.starts_with("label_") && (name.ends_with("_gpu_type") || name.ends_with("_gpu_model"))
    };
    let mut labels = series.labels.iter();
    let found = labels.find(|(name, value)| is_type(name) && !value.is_empty());
    found.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Inventory, Node, NodeDetails};

    fn series(labels: &[(&str, &str)]) -> Series {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Series {
            labels,
            points: Vec::new(),
        }
    }

    fn catalog(nodes: &[(&str, &[(&str, &str)])]) -> NodeCatalog {
        let host = |(name, labels): &(&str, &[(&str, &str)])| {
            let capacity = BTreeMap::from([("nvidia.com/gpu".to_owned(), "8".to_owned())]);
            let mut node = Node {
                name: (*name).to_owned(),
                allocatable: capacity.clone(),
                ..Node::default()
            };
            let labels = labels.iter();
            node.labels
                .extend(labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
            NodeDetails {
                node,
                capacity,
                ..NodeDetails::default()
            }
        };
        let inventory = Inventory::new(nodes.iter().map(host).collect(), None, &[]);
        NodeCatalog::from_nodes(inventory.hosts.iter())
    }

    fn traits(gpu_type: Option<&str>, pool: Option<&str>) -> NodeTraits {
        NodeTraits {
            gpu_type: gpu_type.map(ToOwned::to_owned),
            pool: pool.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn recorded_labels_take_precedence_and_stay_for_later_hours() {
        const PRODUCT: &str = "nvidia.com/gpu.product";
        let mut catalog = catalog(&[
            (
                "a",
                &[(PRODUCT, "NVIDIA-H100-80GB-HBM3"), (POOL_LABEL, "new")],
            ),
            ("b", &[(POOL_LABEL, "b-pool")]),
        ]);
        assert_eq!(catalog.traits("a"), traits(Some("h100-80g"), Some("new")));
        catalog.add_labels(&[
            series(&[
                ("node", "a"),
                ("label_nvidia_com_gpu_product", "NVIDIA-A100-SXM4-80GB"),
                ("label_gpuctl_pool", "old"),
            ]),
            series(&[
                ("node", "deleted"),
                ("label_amd_com_gpu_product_name", "MI300X"),
            ]),
            // A node without exported labels keeps what the API server says.
            series(&[("node", "b")]),
        ]);
        catalog.add_labels(&[]);
        assert_eq!(catalog.traits("a"), traits(Some("a100-80g"), Some("old")));
        assert_eq!(catalog.traits("b"), traits(None, Some("b-pool")));
        assert_eq!(catalog.traits("deleted"), traits(Some("mi300x"), None));
        assert_eq!(catalog.traits("unknown"), NodeTraits::default());
    }

    #[test]
    fn products_of_exporters_name_types_that_no_label_names() {
        let mut catalog = catalog(&[("labeled", &[("nvidia.com/gpu-type", "a100-80g")])]);
        let products = [
            ("labeled", "NVIDIA A100-SXM4-40GB"),
            ("deleted", "NVIDIA H100 80GB HBM3"),
            ("deleted", "NVIDIA H100 80GB HBM3"),
            ("mixed", "NVIDIA L4"),
            ("mixed", "NVIDIA A10"),
        ];
        catalog.add_products(products.into_iter());
        let gpu_type = |catalog: &NodeCatalog, node: &str| catalog.traits(node).gpu_type;
        assert_eq!(gpu_type(&catalog, "labeled").as_deref(), Some("a100-80g"));
        assert_eq!(gpu_type(&catalog, "deleted").as_deref(), Some("h100-80g"));
        assert_eq!(gpu_type(&catalog, "mixed"), None);
        // In an hour without exporter, the type stays known.
        catalog.add_products(std::iter::empty());
        assert_eq!(gpu_type(&catalog, "deleted").as_deref(), Some("h100-80g"));
    }
}
