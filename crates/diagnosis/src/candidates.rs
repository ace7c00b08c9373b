//! Compares a pod with every node and counts the obstacles. `placement.rs` and `shortage.rs`
//! describe them.

use std::collections::BTreeMap;

use super::facts::PendingPod;
use super::nodes::{NodeObstacle, node_obstacles};
use gpuctl_core::model::Node;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::counting::capacity::{Amounts, pods_held};

/// Returns true if the cause disappears when a node has more free resources.
pub(super) fn is_shortage(word: &str) -> bool {
    word.starts_with("insufficient") || word == "device-claim"
}

/// A node with the requested labels, and the obstacles that keep the pod off it.
pub(super) struct CandidateNode<'n> {
    pub node: &'n Node,
    pub free: &'n Amounts,
    pub obstacles: Vec<NodeObstacle>,
    /// Number of pods with these requests that fit now.
    pub takes: u64,
    /// Whether one pod would fit if the node were empty.
    pub large_enough: bool,
}

impl CandidateNode<'_> {
    pub(super) fn name(&self) -> &str {
        &self.node.name
    }

    /// Returns true if an obstacle with this name keeps the pod off the node.
    pub(super) fn has_obstacle(&self, word: &str) -> bool {
        self.obstacles.iter().any(|(obstacle, _)| *obstacle == word)
    }

    /// Returns true if the node only lacks free resources.
    pub(super) fn lacks_only_resources(&self) -> bool {
        self.obstacles.iter().all(|(word, _)| is_shortage(word))
    }
}

/// Compares the pod with one node. Returns `None` if the node's free resources are unknown.
pub(super) fn candidate<'n>(
    pending: &PendingPod,
    node: &'n Node,
    capacity: &'n ClusterCapacity,
) -> Option<CandidateNode<'n>> {
    let free = capacity.free.get(&node.name)?;
    let on = |amounts: &Amounts| {
        pods_held(
            &pending.requests,
            &BTreeMap::from([(node.name.clone(), amounts.clone())]),
        )
    };
    let takes = on(free);
    let left: Amounts = free
        .iter()
        .map(|(resource, amount)| (resource.clone(), amount - taken(pending, resource, takes)))
        .collect();
    let mut obstacles = node_obstacles(&pending.rules, &pending.requests, node, &left);
    // `left` is what remains after all pods that fit, so some resource is always short. This is not
    // an obstacle for a single pod.
    if takes > 0 && pending.together <= 1 {
        obstacles.retain(|(word, _)| !is_shortage(word));
    }
    // If several pods must be placed together, a node that fits only some of them lacks capacity.
    let only_full = obstacles.iter().all(|(word, _)| is_shortage(word));
    if takes > 0 && only_full && takes >= pending.together {
        obstacles.clear();
    }
    Some(CandidateNode {
        node,
        free,
        obstacles,
        takes,
        large_enough: on(&node.most()) > 0,
    })
}

fn taken(pending: &PendingPod, resource: &str, pods: u64) -> i128 {
    pending.requests.get(resource).copied().unwrap_or(0) * i128::from(pods)
}

/// An obstacle and the number of nodes that it affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CountedObstacle {
    pub word: &'static str,
    pub detail: Option<String>,
    /// Number of nodes without any other obstacle.
    pub alone: usize,
    pub nodes: usize,
}

impl CountedObstacle {
    /// Returns the sort key. Obstacles whose removal alone frees the most nodes come first.
    pub(super) fn order(
        &self,
    ) -> (
        std::cmp::Reverse<usize>,
        std::cmp::Reverse<usize>,
        bool,
        &'static str,
    ) {
        // Break ties in favor of GPUs, because they matter most to the job.
        (
            std::cmp::Reverse(self.alone),
            std::cmp::Reverse(self.nodes),
            self.word != "insufficient-gpu",
            self.word,
        )
    }
}

/// Counts the affected nodes of each obstacle.
pub(super) fn counted(candidates: &[&CandidateNode<'_>]) -> Vec<CountedObstacle> {
    let mut obstacles: Vec<CountedObstacle> = Vec::new();
    for candidate in candidates {
        for (word, detail) in &candidate.obstacles {
            let alone = usize::from(candidate.obstacles.len() == 1);
            match obstacles.iter_mut().find(|counted| counted.word == *word) {
                Some(counted) => {
                    counted.alone += alone;
                    counted.nodes += 1;
                }
                None => obstacles.push(CountedObstacle {
                    word,
                    detail: detail.clone(),
                    alone,
                    nodes: 1,
                }),
            }
        }
    }
    obstacles
}
