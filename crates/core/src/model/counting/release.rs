//! Determines which GPUs a deletion releases. Forced deletion removes pods from the API server, but
//! only the kubelet can stop their containers. On a node that does not respond, they may continue
//! to run.

use std::collections::BTreeMap;

use crate::model::contract::deletion::UnconfirmedNode;
use crate::model::values::text::count;
use crate::model::{GpuCount, Pod};

/// Whether the kubelet of a node can confirm that containers have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeContact {
    Ready,
    /// Reason of the node's `Ready` condition, such as `NodeStatusUnknown`.
    NotReady(String),
    /// The Node object no longer exists, so its GPUs are not part of the cluster.
    Removed,
    /// The node could not be read.
    Hidden,
}

/// Reason for a node whose state is inferred from its pods.
const NODE_LOST: &str = "NodeLost";

/// The GPUs that a deletion releases, and the nodes on which containers may still run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    pub freed: GpuCount,
    /// Nodes without confirmation, sorted by name.
    pub unconfirmed: Vec<UnconfirmedNode>,
}

impl Release {
    /// Computes the release of the GPUs that `pods` held before the deletion. `contact` returns the
    /// state of a node.
    pub fn new(pods: &[Pod], contact: impl Fn(&str) -> NodeContact) -> Self {
        let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| pod.holds()) {
            let node = pod.node.as_deref().unwrap_or_default();
            by_node.entry(node).or_default().push(pod);
        }
        let mut release = Self::default();
        for (node, pods) in by_node {
            let gpus: GpuCount = pods.iter().map(|pod| pod.gpus).sum();
            let reason = match contact(node) {
                NodeContact::Ready | NodeContact::Removed => {
                    release.freed += gpus;
                    continue;
                }
                NodeContact::NotReady(reason) => Some(reason),
                NodeContact::Hidden => None,
            };
            release.unconfirmed.push(UnconfirmedNode {
                node: node.to_owned(),
                gpu: gpus,
                containers: pods.iter().flat_map(|pod| containers(pod)).collect(),
                reason,
            });
        }
        release
    }

    /// Predicts the release from the pods alone: a node with lost pods counts as not ready.
    pub fn predict(pods: &[Pod]) -> Self {
        Self::new(pods, |node| {
            let is_lost = |pod: &Pod| pod.is_lost() && pod.node.as_deref() == Some(node);
            match pods.iter().any(is_lost) {
                true => NodeContact::NotReady(NODE_LOST.to_owned()),
                false => NodeContact::Ready,
            }
        })
    }

    /// Describes the GPUs after a deletion, such as `2 GPUs are free again`.
    pub fn message(&self) -> String {
        let is = |gpus: GpuCount, one: &str, many: &str| match gpus {
            GpuCount(1) => format!("1 GPU {one}"),
            _ => format!("{gpus} GPUs {many}"),
        };
        let mut parts = Vec::new();
        if self.freed > GpuCount::ZERO {
            parts.push(is(self.freed, "is free again", "are free again"));
        }
        for held in self.holding_nodes() {
            let node = &held.node;
            parts.push(match held.reason {
                Some(_) => format!(
                    "{} on {node} until the node responds again or is removed",
                    is(held.gpu, "stays in use", "stay in use")
                ),
                None => {
                    let on_node = (format!("on {node} is free"), format!("on {node} are free"));
                    let gpus = is(held.gpu, &on_node.0, &on_node.1);
                    format!("it is unknown whether {gpus}")
                }
            });
        }
        match parts.is_empty() {
            true => "it held no GPUs".to_owned(),
            false => parts.join("; "),
        }
    }

    /// Describes the GPUs that a pause or a deletion would release, or returns an empty string if
    /// none are held. The argument is the verb for one GPU and for several, such as `would be` or
    /// `become`.
    pub fn forecast(&self, (one, many): (&str, &str)) -> String {
        let mut parts = Vec::new();
        if self.freed > GpuCount::ZERO {
            let verb = if self.freed == GpuCount(1) { one } else { many };
            parts.push(format!("{} {verb} free", count(self.freed.0, "GPU")));
        }
        for UnconfirmedNode { node, gpu, .. } in self.holding_nodes() {
            let verb = if *gpu == GpuCount(1) { "stays" } else { "stay" };
            parts.push(format!(
                "{} {verb} in use on {node}, which does not respond",
                count(gpu.0, "GPU")
            ));
        }
        parts.join("; ")
    }

    /// Builds a warning for each node on which containers of the job may still run.
    pub fn warnings(&self, job: &str) -> Vec<String> {
        /// Maximum number of containers in one warning.
        const NAMED: usize = 8;
        let warning = |node: &UnconfirmedNode| {
            let mut names = node.containers.clone();
            let unnamed_count = names.len().saturating_sub(NAMED);
            names.truncate(NAMED);
            if unnamed_count > 0 {
                names.push(format!("{unnamed_count} more"));
            }
            let (name, names) = (&node.node, names.join(", "));
            match &node.reason {
                Some(reason) => format!(
                    "{name} does not respond ({reason}): containers of job `{job}` may still be \
                     running there: {names}"
                ),
                None => format!(
                    "{name} cannot be read, so it is unknown whether containers of job `{job}` \
                     are still running there: {names}"
                ),
            }
        };
        let has_containers = |node: &&UnconfirmedNode| !node.containers.is_empty();
        self.unconfirmed
            .iter()
            .filter(has_containers)
            .map(warning)
            .collect()
    }

    fn holding_nodes(&self) -> impl Iterator<Item = &UnconfirmedNode> {
        let nodes = self.unconfirmed.iter();
        nodes.filter(|node| node.gpu > GpuCount::ZERO)
    }
}

/// Returns the containers of a pod that have not terminated, as POD/CONTAINER.
fn containers(pod: &Pod) -> Vec<String> {
    pod.containers
        .iter()
        .filter(|container| container.terminated.is_none())
        .map(|container| format!("{}/{}", pod.name, container.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Container, PodPhase};

    fn pod(name: &str, node: &str, gpus: u64) -> Pod {
        Pod {
            name: name.to_owned(),
            node: Some(node.to_owned()),
            phase: PodPhase::Running,
            gpus: GpuCount(gpus),
            containers: vec![Container {
                name: "main".to_owned(),
                running: true,
                ..Container::default()
            }],
            ..Pod::default()
        }
    }

    fn contact(node: &str) -> NodeContact {
        match node {
            "dead" => NodeContact::NotReady("NodeStatusUnknown".to_owned()),
            "gone" => NodeContact::Removed,
            "hidden" => NodeContact::Hidden,
            _ => NodeContact::Ready,
        }
    }

    #[test]
    fn gpus_on_a_silent_node_stay_in_use() {
        let pods = [
            pod("a-0", "good", 4),
            pod("a-1", "dead", 1),
            pod("a-2", "gone", 2),
        ];
        let release = Release::new(&pods, contact);
        assert_eq!(release.freed, GpuCount(6));
        assert_eq!(
            release.message(),
            "6 GPUs are free again; 1 GPU stays in use on dead until the node responds again or \
             is removed"
        );
        assert_eq!(
            release.warnings("a"),
            [
                "dead does not respond (NodeStatusUnknown): containers of job `a` may still be \
              running there: a-1/main"
            ]
        );
    }

    #[test]
    fn an_unreadable_node_never_counts_as_free() {
        let release = Release::new(&[pod("a-0", "hidden", 2)], contact);
        assert_eq!(release.freed, GpuCount::ZERO);
        assert_eq!(
            release.message(),
            "it is unknown whether 2 GPUs on hidden are free"
        );
        assert_eq!(release.unconfirmed[0].reason, None);
    }

    #[test]
    fn ended_and_unscheduled_pods_hold_nothing() {
        let mut pods = [pod("a-0", "dead", 2), pod("a-1", "dead", 2)];
        pods[0].phase = PodPhase::Succeeded;
        pods[1].node = None;
        assert_eq!(Release::new(&pods, contact), Release::default());
        assert_eq!(Release::default().message(), "it held no GPUs");
    }

    #[test]
    fn containers_without_gpus_are_still_named() {
        let release = Release::new(&[pod("a-0", "dead", 0)], contact);
        assert_eq!(release.message(), "it held no GPUs");
        assert_eq!(release.warnings("a").len(), 1);
    }

    #[test]
    fn a_forecast_excludes_lost_pods() {
        let mut pods = [pod("a-0", "good", 1), pod("a-1", "dead", 2)];
        let release = |pods: &[Pod]| Release::predict(pods).forecast(("becomes", "become"));
        assert_eq!(release(&pods), "3 GPUs become free");
        pods[1].silent = true;
        assert_eq!(
            release(&pods),
            "1 GPU becomes free; 2 GPUs stay in use on dead, which does not respond"
        );
        assert_eq!(release(&[]), "");
    }
}
