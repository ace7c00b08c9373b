//! Compares a pod with every node and counts what keeps it off. Sentences are made elsewhere.

use std::collections::BTreeMap;

use super::facts::PendingPod;
use super::nodes::{NodeObstacle, keeps_off};
use gpuctl_core::model::Node;
use gpuctl_core::model::counting::candidates::Room;
use gpuctl_core::model::counting::capacity::{Amounts, pods_held};

/// Returns true for the causes that less load on a node would remove.
pub(super) fn is_shortage(word: &str) -> bool {
    word.starts_with("insufficient") || word == "device-claim"
}

/// A node that has the labels, with what else keeps the pod off it.
pub(super) struct CandidateNode<'n> {
    pub node: &'n Node,
    pub free: &'n Amounts,
    pub obstacles: Vec<NodeObstacle>,
    /// Pods that it takes now.
    pub takes: u64,
    /// False where the node would be too small if nobody else used it.
    pub large_enough: bool,
}

/// Compares the pod with one node; `None` where it is not known what is free there.
pub(super) fn candidate<'n>(
    pending: &PendingPod,
    node: &'n Node,
    room: &'n Room,
) -> Option<CandidateNode<'n>> {
    let free = room.free.get(&node.name)?;
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
    let mut obstacles = keeps_off(&pending.rules, &pending.requests, node, &left);
    if takes > 0 && pending.together <= 1 {
        obstacles.retain(|(word, _)| !is_shortage(word));
    }
    // With several pods that must fit together, a node that takes some of them lacks room for more.
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

/// An obstacle with the nodes on which it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CountedObstacle {
    pub word: &'static str,
    pub detail: Option<String>,
    /// Nodes that this obstacle alone keeps the pod off.
    pub alone: usize,
    pub nodes: usize,
}

impl CountedObstacle {
    /// Sorts those first whose removal alone gives most nodes.
    pub(super) fn order(
        &self,
    ) -> (
        std::cmp::Reverse<usize>,
        std::cmp::Reverse<usize>,
        bool,
        &'static str,
    ) {
        // Of equal ones GPUs come first, for which the job is there.
        (
            std::cmp::Reverse(self.alone),
            std::cmp::Reverse(self.nodes),
            self.word != "insufficient-gpu",
            self.word,
        )
    }
}

/// Counts the nodes of each obstacle.
pub(super) fn counted(candidates: &[&CandidateNode<'_>]) -> Vec<CountedObstacle> {
    let mut found: Vec<CountedObstacle> = Vec::new();
    for candidate in candidates {
        for (word, detail) in &candidate.obstacles {
            let alone = usize::from(candidate.obstacles.len() == 1);
            match found.iter_mut().find(|one| one.word == *word) {
                Some(one) => {
                    one.alone += alone;
                    one.nodes += 1;
                }
                None => found.push(CountedObstacle {
                    word,
                    detail: detail.clone(),
                    alone,
                    nodes: 1,
                }),
            }
        }
    }
    found
}
