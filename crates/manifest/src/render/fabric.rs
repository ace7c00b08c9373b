//! Requests RDMA devices (`resources.rdma`), and derives ports for jobs on the host network.
//! Resource names are those of the device plugins: Mellanox' rdma-shared-dev-plugin and network
//! operator, and AWS' EFA plugin.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Capabilities, SecurityContext};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::Target;
use super::placement::NodeChoice;
use crate::spec::{JobDocument, Rdma};
use gpuctl_core::model::values::fingerprint::fnv;
use gpuctl_core::model::{Node, Nodes};

/// Largest number of devices that a node has without sharing them. A node that offers more shares
/// each device among its pods, so a pod requests one share.
const SHARED: u64 = 64;
/// torch's default port for the rendezvous.
const MASTER_PORT: u16 = 29_500;
/// The port on which rank 0's supervisor listens. It differs from torch's ports 29500 and 29400.
const SUPERVISOR_PORT: u16 = 29_450;

/// Determines the RDMA devices that each pod requests, and optionally returns a warning for the
/// user.
pub(super) fn devices(
    job: &JobDocument,
    target: &Target,
    choice: &NodeChoice,
) -> (BTreeMap<String, Quantity>, Option<String>) {
    let counts = match &job.resources.rdma {
        None => return (BTreeMap::new(), None),
        Some(Rdma::Named { name, count }) => BTreeMap::from([(name.clone(), u64::from(*count))]),
        Some(Rdma::Auto) => {
            let Nodes::Listed(nodes) = &target.nodes else {
                let warning = "rdma: auto cannot find devices because you are not allowed to list nodes; specify them with `rdma: NAME:COUNT`";
                return (BTreeMap::new(), Some(warning.to_owned()));
            };
            common_devices(
                nodes
                    .iter()
                    .filter(|node| choice.candidates.contains(&node.name)),
                job.resources.gpu,
            )
        }
    };
    let warning = counts.is_empty().then(|| {
        "rdma: auto found no devices on the eligible nodes; the ranks will use TCP".to_owned()
    });
    (
        counts
            .into_iter()
            .map(|(name, count)| (name, Quantity(count.to_string())))
            .collect(),
        warning,
    )
}

/// Finds the devices that all nodes with RDMA have. A job that requests half of a node's GPUs gets
/// half of its devices.
fn common_devices<'n>(nodes: impl Iterator<Item = &'n Node>, gpus: u32) -> BTreeMap<String, u64> {
    let equipped: Vec<(&Node, BTreeSet<&str>)> = nodes
        .map(|node| {
            let names = node.allocatable.keys().map(String::as_str);
            (
                node,
                names
                    .filter(|name| is_fabric(name) && node.allocatable(name) > 0)
                    .collect::<BTreeSet<_>>(),
            )
        })
        .filter(|(_, names)| !names.is_empty())
        .collect();
    let Some((_, first)) = equipped.first() else {
        return BTreeMap::new();
    };
    let common = first
        .iter()
        .filter(|name| equipped.iter().all(|(_, names)| names.contains(*name)));
    let part = |node: &Node, name: &str| match (
        node.allocatable(name),
        node.whole_resource().map(|gpu| node.allocatable(gpu)),
    ) {
        (count, _) if count > SHARED => 1,
        (count, Some(total)) if total > 0 => (count * u64::from(gpus) / total).clamp(1, count),
        _ => 1,
    };
    let min_count = |name: &str| {
        equipped
            .iter()
            .map(|(node, _)| part(node, name))
            .min()
            .unwrap_or(1)
    };
    common
        .map(|name| ((*name).to_owned(), min_count(name)))
        .collect()
}

fn is_fabric(name: &str) -> bool {
    let Some((domain, device)) = name.split_once('/') else {
        return false;
    };
    domain == "rdma"
        || matches!(
            name,
            "vpc.amazonaws.com/efa" | "nvidia.com/hostdev" | "nvidia.com/mlnxnics"
        )
        || ["rdma", "roce", "infiniband"]
            .iter()
            .any(|word| device.contains(word))
}

/// Adds the capability that RDMA drivers need to lock memory. The restricted Pod Security level
/// forbids it.
pub(super) fn security(
    job: &JobDocument,
    context: Option<SecurityContext>,
) -> Option<SecurityContext> {
    if job.resources.rdma.is_none() || job.security.restricted {
        return context;
    }
    let locks = Capabilities {
        add: Some(vec!["IPC_LOCK".to_owned()]),
        drop: None,
    };
    Some(SecurityContext {
        capabilities: Some(locks),
        ..context.unwrap_or_default()
    })
}

/// Ports for the rendezvous of a training's ranks.
pub(super) struct Ports {
    pub master: u16,
    pub supervisor: u16,
}

/// Returns torch's default ports. On the host network, where jobs share a node's ports, derives two
/// ports from the job's name.
pub(super) fn ports(job: &JobDocument, target: &Target) -> Ports {
    if !uses_host_network(job) {
        return Ports {
            master: MASTER_PORT,
            supervisor: SUPERVISOR_PORT,
        };
    }
    // Ports 20,000 to 28,999 are below the NodePorts (from 30,000) and below the ephemeral ports of
    // Linux (from 32,768).
    let pair = fnv(&format!("{}/{}", target.namespace, job.id())) % 4_500;
    let master = 20_000 + 2 * u16::try_from(pair).expect("below 4,500");
    Ports {
        master,
        supervisor: master + 1,
    }
}

/// Returns true if `pod:` puts the pods on the host network.
pub(super) fn uses_host_network(job: &JobDocument) -> bool {
    job.pod
        .as_ref()
        .is_some_and(|pod| pod["hostNetwork"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, devices: &[(&str, &str)]) -> Node {
        let allocatable = devices
            .iter()
            .map(|(name, count)| ((*name).to_owned(), (*count).to_owned()))
            .collect();
        Node {
            name: name.to_owned(),
            allocatable,
            ..Node::default()
        }
    }

    #[test]
    fn network_devices_are_proportional_to_gpus() {
        let gpus = ("nvidia.com/gpu", "8");
        let counted = |devices: &[(&str, &str)], requested| {
            let node = node("a", &[&[gpus], devices].concat());
            common_devices([&node].into_iter(), requested)
                .into_iter()
                .map(|(name, count)| format!("{name}:{count}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            counted(&[("vpc.amazonaws.com/efa", "32")], 8),
            ["vpc.amazonaws.com/efa:32"]
        );
        assert_eq!(
            counted(&[("vpc.amazonaws.com/efa", "32")], 1),
            ["vpc.amazonaws.com/efa:4"]
        );
        assert_eq!(
            counted(&[("rdma/hca_shared_devices_a", "1000")], 8),
            ["rdma/hca_shared_devices_a:1"]
        );
        assert_eq!(
            counted(&[("nvidia.com/hostdev", "4")], 1),
            ["nvidia.com/hostdev:1"]
        );
        assert_eq!(
            counted(&[("rdma/rail0", "1"), ("rdma/rail1", "1")], 8),
            ["rdma/rail0:1", "rdma/rail1:1"]
        );
        assert!(counted(&[("example.com/fpga", "4"), ("rdma/off", "0")], 8).is_empty());
    }

    #[test]
    fn only_devices_of_all_eligible_nodes_are_requested() {
        let nodes = [
            node(
                "a",
                &[("nvidia.com/gpu", "8"), ("rdma/a", "8"), ("rdma/b", "8")],
            ),
            node("b", &[("nvidia.com/gpu", "8"), ("rdma/a", "4")]),
            node("c", &[("nvidia.com/gpu", "8")]),
        ];
        assert_eq!(
            common_devices(nodes.iter(), 8),
            BTreeMap::from([("rdma/a".to_owned(), 4)])
        );
    }
}
