//! Checks the software that makes a node's GPUs usable and observable: driver, container toolkit,
//! device plugin or DRA driver, feature discovery, exporter and scrape. Finds the first broken
//! component, however it was installed.

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
    /// The kubelet plugin of dynamic resource allocation. It replaces the device plugin.
    DraDriver,
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
    /// No series names the node, and these labels of GPU series name no node. The series may be
    /// from another node or cluster.
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

/// Label with which NVIDIA's GPU operator selects the nodes of the DRA driver.
const DRA_DEPLOYED: &str = "nvidia.com/gpu.deploy.dra-driver";

/// Devices that a DRA driver offers on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraOffer {
    pub devices: u64,
    /// True if the driver reports a product name.
    pub has_product: bool,
}

/// Returns true if a node has GPUs, usable or not. A label in `PRESENT` is sufficient.
pub fn has_gpus(host: &NodeDetails, claimable: DraOffer) -> bool {
    claimable.devices > 0
        || host.node.has_gpus()
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

/// Returns the first broken component of a node with GPUs. Nodes with a device plugin and nodes
/// with a DRA driver can be in one cluster, and each of them needs only one of the two.
pub fn broken(
    host: &NodeDetails,
    claimable: DraOffer,
    pods: &[StackPod],
    metrics: NodeMetrics,
) -> Option<BrokenLink> {
    let node = &host.node;
    let stack = NodeStack {
        node: &node.name,
        pods,
    };
    let (installed, offered) = (installed(host), offered(host));
    // A kubelet whose device plugin was removed keeps its resource in the capacity for minutes.
    let is_claimed = claimable.devices > 0 && offered == 0;
    let is_dra = is_claimed
        || node
            .labels
            .get(DRA_DEPLOYED)
            .is_some_and(|value| value == "true")
        || stack.on_node(StackLink::DraDriver).next().is_some() && offered == 0;
    if !is_claimed && !node.has_gpus() && installed == 0 {
        return stack.without_gpus(is_dra);
    }
    let gpus = if is_claimed {
        stack.fault(StackLink::DraDriver)
    } else {
        stack.device_plugin(installed, offered)
    };
    if gpus.is_some() {
        return gpus;
    }
    if node.type_label().is_none() && !(is_claimed && claimable.has_product) {
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
        NodeMetrics::Unmatched(labels) => Some(stack.without_matching_series(&labels)),
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

    /// Returns the fault of a node whose GPUs a device plugin offers.
    fn device_plugin(&self, installed: u64, offered: u64) -> Option<BrokenLink> {
        // The kubelet removes unhealthy devices from `allocatable` but keeps them in `capacity`.
        if offered >= installed {
            return self.fault(StackLink::DevicePlugin);
        }
        let bad = installed - offered;
        Some(BrokenLink {
            link: StackLink::DevicePlugin,
            message: format!(
                "{bad} of {installed} GPUs are not allocatable: the device plugin considers them unhealthy, or is down"
            ),
            fix: format!("gpuctl describe node {}", self.node),
        })
    }

    /// Explains why a node offers no GPUs although its labels state that it has some, or its DRA
    /// driver offers no devices.
    fn without_gpus(&self, is_dra: bool) -> Option<BrokenLink> {
        let offering = match is_dra {
            true => StackLink::DraDriver,
            false => StackLink::DevicePlugin,
        };
        let plugin = || BrokenLink {
            link: offering,
            message: "the node is labeled as having GPUs, but offers none".to_owned(),
            fix: format!(
                "kubectl get pods -A --field-selector spec.nodeName={} | grep -i -e plugin -e driver",
                self.node
            ),
        };
        let links = [StackLink::Driver, StackLink::Toolkit, offering];
        links
            .into_iter()
            .find_map(|link| self.fault(link))
            .or_else(|| Some(plugin()))
    }

    /// Explains why no series names the node, while series with `labels` match no node.
    ///
    /// Nothing in such series proves that they are the node's: a shared store has the series of
    /// other clusters, and other nodes can be silent for another reason. But an exporter that does
    /// not run has no series.
    fn without_matching_series(&self, labels: &str) -> BrokenLink {
        let silent = "no series names this node";
        match self.fault(StackLink::Exporter) {
            Some(link) => BrokenLink {
                message: format!("{silent}: {}", link.message),
                ..link
            },
            None => BrokenLink {
                link: StackLink::Scrape,
                message: format!(
                    "{silent}; series with {labels} match no node and may be from its exporter"
                ),
                fix:
                    "check that Prometheus scrapes its exporter, and let the scrape add the label \
                      `node` with the name of the exporter's node"
                        .to_owned(),
            },
        }
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
mod tests;
