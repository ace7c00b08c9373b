//! Checks the software that makes a node's GPUs usable and observable: driver, container toolkit,
//! device plugin, feature discovery, exporter and scrape. Finds the first broken component, however
//! it was installed.

use super::gpu::WHOLE;
use super::host::NodeDetails;
use crate::model::values::quantity;

/// A component of the GPU software. Each component depends on those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum StackLink {
    Driver,
    #[strum(serialize = "container-toolkit")]
    Toolkit,
    DevicePlugin,
    FeatureDiscovery,
    Exporter,
    Scrape,
}

impl StackLink {
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A pod of a component of the GPU software.
#[derive(Clone, Debug, Default)]
pub struct StackPod {
    pub link: Option<StackLink>,
    pub namespace: String,
    pub name: String,
    pub node: String,
    pub ready: bool,
    /// Reason why the pod is not ready, if its containers report one.
    pub trouble: Option<String>,
}

/// The first broken component of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLink {
    pub link: StackLink,
    pub message: String,
    /// A command or action that repairs the problem or shows more about it.
    pub fix: String,
}

/// State of the metrics of a node's devices.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeMetrics {
    /// No metrics source was available.
    Unknown,
    Missing,
    /// No series names the node, and these labels of GPU series name no node.
    Unmatched(String),
    /// No series that gpuctl reads exists for the node, and GPU metrics with these names do.
    Unread(String),
    /// Age of the newest sample in seconds.
    Stale(f64),
    Fresh,
}

/// Node labels that feature discovery or an administrator sets on nodes with GPUs.
const PRESENT: [&str; 3] = [
    "nvidia.com/gpu.present",
    // PCI vendor IDs: 10de is NVIDIA, and 1002 is AMD.
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-1002.present",
];

/// Returns true if a node has GPUs, usable or not. A label in `PRESENT` is sufficient.
pub fn has_gpus(host: &NodeDetails) -> bool {
    host.node.has_gpus()
        || installed(host) > 0
        || PRESENT.iter().any(|label| {
            host.node
                .labels
                .get(*label)
                .is_some_and(|value| value == "true")
        })
}

/// Returns the number of whole GPUs of a node, healthy or not.
fn installed(host: &NodeDetails) -> u64 {
    let amount = |resource: &&str| {
        host.capacity
            .get(*resource)
            .and_then(|text| quantity::units(text))
    };
    WHOLE.iter().filter_map(amount).sum()
}

/// Returns the number of whole GPUs that pods can use.
fn offered(host: &NodeDetails) -> u64 {
    WHOLE
        .iter()
        .map(|resource| host.node.allocatable(resource))
        .sum()
}

/// Returns the first broken component of a node with GPUs.
pub fn broken(host: &NodeDetails, pods: &[StackPod], metrics: NodeMetrics) -> Option<BrokenLink> {
    let node = &host.node;
    let stack = NodeStack {
        node: &node.name,
        pods,
    };
    let (installed, offered) = (installed(host), offered(host));
    if !node.has_gpus() && installed == 0 {
        return stack.without_gpus();
    }
    // The kubelet removes unhealthy devices from `allocatable` but keeps them in `capacity`.
    if offered < installed {
        let bad = installed - offered;
        return Some(BrokenLink {
            link: StackLink::DevicePlugin,
            message: format!(
                "{bad} of {installed} GPUs are not allocatable: the device plugin considers them unhealthy, or is down"
            ),
            fix: format!("gpuctl describe node {}", node.name),
        });
    }
    if let Some(link) = stack.fault(StackLink::DevicePlugin) {
        return Some(link);
    }
    if node.type_label().is_none() {
        return stack.fault(StackLink::FeatureDiscovery).or_else(|| {
            Some(BrokenLink {
                link: StackLink::FeatureDiscovery,
                message: "no label contains its GPU type".to_owned(),
                fix: format!("gpuctl label node {} nvidia.com/gpu-type=TYPE", node.name),
            })
        });
    }
    match metrics {
        NodeMetrics::Unknown | NodeMetrics::Fresh => None,
        NodeMetrics::Missing => Some(stack.without_metrics("its GPUs have no metrics")),
        NodeMetrics::Unmatched(labels) => Some(BrokenLink {
            link: StackLink::Scrape,
            message: format!("no series names this node, but series with {labels} match no node"),
            fix: "let the scrape add the label `node` with the name of the exporter's node"
                .to_owned(),
        }),
        NodeMetrics::Unread(names) => Some(BrokenLink {
            link: StackLink::Exporter,
            message: format!(
                "its GPUs have no metrics that gpuctl reads, but Prometheus has {names}"
            ),
            fix: "install an exporter that docs/metrics.md lists, or report these names".to_owned(),
        }),
        NodeMetrics::Stale(age) => {
            Some(stack.without_metrics(&format!("its GPUs have had no metrics for {age:.0} s")))
        }
    }
}

/// The pods of the GPU software, and the node to check.
struct NodeStack<'s> {
    node: &'s str,
    pods: &'s [StackPod],
}

impl NodeStack<'_> {
    fn on_node(&self, link: StackLink) -> impl Iterator<Item = &StackPod> {
        self.pods
            .iter()
            .filter(move |pod| pod.link == Some(link) && pod.node == self.node)
    }

    /// Returns a fault if a pod of the component is not ready, or if the component runs only on
    /// other nodes. A component without any pods is not faulty, because it may be installed on the
    /// host, like a driver.
    fn fault(&self, link: StackLink) -> Option<BrokenLink> {
        if let Some(pod) = self.on_node(link).find(|pod| !pod.ready) {
            let why = pod
                .trouble
                .as_ref()
                .map_or(String::new(), |trouble| format!(" ({trouble})"));
            return Some(BrokenLink {
                link,
                message: format!("its pod {} is not ready{why}", pod.name),
                fix: format!(
                    "kubectl logs -n {} {} --all-containers --tail 30",
                    pod.namespace, pod.name
                ),
            });
        }
        let anywhere = self.pods.iter().any(|pod| pod.link == Some(link));
        (anywhere && self.on_node(link).next().is_none()).then(|| BrokenLink {
            link,
            message: "none of its pods run on this node, but other nodes have one".to_owned(),
            fix: format!("kubectl describe node {}", self.node),
        })
    }

    /// Explains why a node offers no GPUs although its labels state that it has some.
    fn without_gpus(&self) -> Option<BrokenLink> {
        let plugin = || BrokenLink {
            link: StackLink::DevicePlugin,
            message: "the node is labeled as having GPUs, but offers none".to_owned(),
            fix: format!(
                "kubectl get pods -A --field-selector spec.nodeName={} | grep -i -e plugin -e driver",
                self.node
            ),
        };
        let links = [
            StackLink::Driver,
            StackLink::Toolkit,
            StackLink::DevicePlugin,
        ];
        links
            .into_iter()
            .find_map(|link| self.fault(link))
            .or_else(|| Some(plugin()))
    }

    /// Explains why metrics of the node's GPUs are missing or stale. `stale` describes their state.
    fn without_metrics(&self, stale: &str) -> BrokenLink {
        match self.fault(StackLink::Exporter) {
            Some(link) => BrokenLink {
                message: format!("{stale}: {}", link.message),
                ..link
            },
            None if self.on_node(StackLink::Exporter).next().is_some() => BrokenLink {
                link: StackLink::Scrape,
                message: format!(
                    "{stale}: its exporter is ready, but Prometheus does not scrape it"
                ),
                fix: "kubectl get servicemonitors,podmonitors -A | grep -i dcgm".to_owned(),
            },
            None => BrokenLink {
                link: StackLink::Exporter,
                message: format!("{stale}: no exporter pod was found on the node"),
                fix: "install dcgm-exporter, or AMD's device-metrics-exporter, on every GPU node"
                    .to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::Node;

    fn host(capacity: &str, allocatable: &str, labels: &[(&str, &str)]) -> NodeDetails {
        let amounts = |count: &str| {
            if count == "0" {
                BTreeMap::default()
            } else {
                [("nvidia.com/gpu".to_owned(), count.to_owned())].into()
            }
        };
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let node = Node {
            name: "n".into(),
            labels,
            allocatable: amounts(allocatable),
            ..Node::default()
        };
        NodeDetails {
            node,
            capacity: amounts(capacity),
            ..NodeDetails::default()
        }
    }

    fn pod(link: StackLink, node: &str, ready: bool) -> StackPod {
        StackPod {
            link: Some(link),
            node: node.into(),
            name: format!("{}-{node}", link.word()),
            ready,
            ..StackPod::default()
        }
    }

    #[test]
    fn first_broken_link_is_reported() {
        use StackLink::{DevicePlugin, Driver, Exporter, FeatureDiscovery, Scrape, Toolkit};
        let typed = [("nvidia.com/gpu.product", "NVIDIA-A10")];
        let link = |host: &NodeDetails, pods: &[StackPod], metrics| {
            broken(host, pods, metrics).map(|broken| broken.link)
        };
        let well = host("8", "8", &typed);
        assert_eq!(link(&well, &[], NodeMetrics::Fresh), None);
        assert_eq!(link(&well, &[], NodeMetrics::Unknown), None);
        assert_eq!(link(&well, &[], NodeMetrics::Missing), Some(Exporter));
        let unmatched = NodeMetrics::Unmatched("Hostname=\"DGX8\"".to_owned());
        let found = broken(&well, &[], unmatched).unwrap();
        assert_eq!(
            (found.link, found.message.as_str()),
            (
                Scrape,
                "no series names this node, but series with Hostname=\"DGX8\" match no node"
            )
        );
        assert_eq!(
            link(
                &well,
                &[pod(Exporter, "n", true)],
                NodeMetrics::Stale(700.0)
            ),
            Some(Scrape)
        );
        assert_eq!(
            link(&well, &[pod(Exporter, "n", false)], NodeMetrics::Missing),
            Some(Exporter)
        );
        assert_eq!(
            link(
                &well,
                &[pod(DevicePlugin, "other", true)],
                NodeMetrics::Fresh
            ),
            Some(DevicePlugin)
        );
        assert_eq!(
            link(&host("8", "6", &typed), &[], NodeMetrics::Fresh),
            Some(DevicePlugin)
        );
        assert_eq!(
            link(&host("8", "0", &typed), &[], NodeMetrics::Fresh),
            Some(DevicePlugin)
        );
        assert_eq!(
            link(&host("8", "8", &[]), &[], NodeMetrics::Fresh),
            Some(FeatureDiscovery)
        );
        let empty = host("0", "0", &[("nvidia.com/gpu.present", "true")]);
        assert!(has_gpus(&empty) && !has_gpus(&host("0", "0", &[])));
        assert_eq!(link(&empty, &[], NodeMetrics::Fresh), Some(DevicePlugin));
        assert_eq!(
            link(
                &empty,
                &[pod(Driver, "n", false), pod(Toolkit, "n", false)],
                NodeMetrics::Fresh
            ),
            Some(Driver)
        );
        assert_eq!(
            link(
                &empty,
                &[pod(Driver, "n", true), pod(Toolkit, "n", false)],
                NodeMetrics::Fresh
            ),
            Some(Toolkit)
        );
    }
}
