//! Selects the pods that would be preempted for pods of higher priority. Like kube-scheduler, first
//! removes all pods of lower priority, then spares as many of them as possible, highest priority
//! first. Ignores PodDisruptionBudgets and inter-pod affinity.
//!
//! Source: kubernetes, pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode,
//! pickOneNodeForPreemption).

use std::collections::BTreeMap;

use super::candidates::PlacedPod;
use super::capacity::{Amounts, lacking};

/// A pod that would be preempted, and its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    pub node: String,
    pub pod: PlacedPod,
}

/// Free resources of a node, and the pods bound to it.
pub type NodeLoad = (Amounts, Vec<PlacedPod>);

/// Selects the victims for `pods` new pods, or returns `None` if preemption cannot free enough
/// capacity for all of them.
pub fn victims(
    requests: &Amounts,
    priority: i64,
    pods: u64,
    mut nodes: BTreeMap<String, NodeLoad>,
) -> Option<Vec<Victim>> {
    let mut ended = Vec::new();
    for _ in 0..pods {
        // The scheduler preempts only if the pod fits on no node without preemption.
        let free = nodes
            .iter()
            .find(|(_, (free, _))| lacking(requests, free).is_empty())
            .map(|(node, _)| node.clone());
        let (node, on_node) = match free {
            Some(node) => (node, Vec::new()),
            None => {
                let on = |(node, load): (&String, &NodeLoad)| {
                    Some((node.clone(), on_node(requests, priority, load)?))
                };
                nodes
                    .iter()
                    .filter_map(on)
                    .min_by_key(|(_, victims)| cost(victims))?
            }
        };
        let (free, placed) = nodes.get_mut(&node)?;
        for victim in &on_node {
            add(free, &victim.amounts, 1);
        }
        add(free, requests, -1);
        // Ranks of a job can be identical, so remove only one pod per victim.
        for victim in &on_node {
            if let Some(index) = placed.iter().position(|pod| pod == victim) {
                placed.swap_remove(index);
            }
        }
        ended.extend(on_node.into_iter().map(|pod| Victim {
            node: node.clone(),
            pod,
        }));
    }
    Some(ended)
}

/// Ranks nodes as kube-scheduler does: prefers the node whose highest victim priority is lowest,
/// then the lowest sum of priorities, then the fewest victims.
fn cost(victims: &[PlacedPod]) -> (i64, i64, usize) {
    let priorities = || victims.iter().map(|pod| pod.priority);
    (
        priorities().max().unwrap_or(i64::MIN),
        priorities().fold(0, i64::saturating_add),
        victims.len(),
    )
}

/// Selects the victims on one node for one pod.
fn on_node(requests: &Amounts, priority: i64, (free, placed): &NodeLoad) -> Option<Vec<PlacedPod>> {
    let (mut lower, mut left): (Vec<&PlacedPod>, Amounts) = (
        placed
            .iter()
            .filter(|pod| pod.priority < priority)
            .collect(),
        free.clone(),
    );
    lower.iter().for_each(|pod| add(&mut left, &pod.amounts, 1));
    // The pod does not fit even without all pods of lower priority.
    if lower.is_empty() || !lacking(requests, &left).is_empty() {
        return None;
    }
    // Among pods of equal priority, spare the longest-running first.
    lower.sort_by(|a, b| (b.priority, a.started_at).cmp(&(a.priority, b.started_at)));
    let mut ended = Vec::new();
    for pod in lower {
        add(&mut left, &pod.amounts, -1);
        if !lacking(requests, &left).is_empty() {
            add(&mut left, &pod.amounts, 1);
            ended.push(pod.clone());
        }
    }
    Some(ended)
}

pub(crate) fn add(free: &mut Amounts, amounts: &Amounts, times: i128) {
    for (resource, amount) in amounts {
        if let Some(left) = free.get_mut(resource) {
            *left += amount * times;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(count: i128) -> Amounts {
        Amounts::from([("nvidia.com/gpu".to_owned(), count * 1000)])
    }

    fn pod(name: &str, priority: i64, count: i128) -> PlacedPod {
        PlacedPod {
            holder: format!("a/{name}"),
            priority,
            amounts: gpus(count),
            ..PlacedPod::default()
        }
    }

    fn victim_pods(
        wanted: i128,
        priority: i64,
        pods: u64,
        nodes: &[(&str, i128, Vec<PlacedPod>)],
    ) -> Option<Vec<(String, String)>> {
        let nodes = nodes
            .iter()
            .map(|(name, free, placed)| ((*name).to_owned(), (gpus(*free), placed.clone())))
            .collect();
        let ended = victims(&gpus(wanted), priority, pods, nodes)?;
        Some(
            ended
                .into_iter()
                .map(|victim| (victim.node, victim.pod.holder))
                .collect(),
        )
    }

    fn pairs(names: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(
            names
                .iter()
                .map(|(node, holder)| ((*node).to_owned(), format!("a/{holder}")))
                .collect(),
        )
    }

    /// The expected values come from executing the scheduler's algorithm by hand.
    #[test]
    fn lowest_priority_pods_are_preempted_and_no_more_than_needed() {
        let first = ("n1", 0, vec![pod("low", 0, 4), pod("middle", 500, 4)]);
        // Both pods have lower priority. The one with the higher priority is spared.
        assert_eq!(
            victim_pods(4, 1000, 1, std::slice::from_ref(&first)),
            pairs(&[("n1", "low")])
        );
        assert_eq!(
            victim_pods(8, 1000, 1, std::slice::from_ref(&first)),
            pairs(&[("n1", "middle"), ("n1", "low")])
        );
        // Pods of equal priority are not preempted.
        assert_eq!(victim_pods(8, 500, 1, std::slice::from_ref(&first)), None);
        assert_eq!(victim_pods(1, 0, 1, std::slice::from_ref(&first)), None);
        // The node whose highest victim priority is lowest wins.
        let second = ("n2", 0, vec![pod("lowest", -10, 4), pod("high", 2000, 4)]);
        assert_eq!(
            victim_pods(4, 1000, 1, &[first.clone(), second.clone()]),
            pairs(&[("n2", "lowest")])
        );
        // The first pod uses this node's capacity, so the second pod needs another node.
        assert_eq!(
            victim_pods(4, 1000, 2, &[first.clone(), second]),
            pairs(&[("n2", "lowest"), ("n1", "low")])
        );
        let twins = ("n4", 0, vec![pod("twin", 0, 4), pod("twin", 0, 4)]);
        assert_eq!(
            victim_pods(4, 1000, 2, &[twins]),
            pairs(&[("n4", "twin"), ("n4", "twin")])
        );
        // Free capacity is used before any pod is preempted.
        assert_eq!(
            victim_pods(4, 1000, 2, &[first, ("n3", 4, Vec::new())]),
            pairs(&[("n1", "low")])
        );
    }
}
