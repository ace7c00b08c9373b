//! Compares the requests of one pod with the capacity of nodes. It finds which resource is short on
//! every node, and how many such pods fit. It ignores taints and the pods that run now.

use std::collections::BTreeMap;

/// Amounts keyed by resource, in thousandths of the unit, so that CPU amounts stay integers.
pub type Amounts = BTreeMap<String, i128>;

/// A resource of which a pod requests more than any node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The name of the resource in Kubernetes: `nvidia.com/gpu`, `memory`.
    pub resource: String,
    /// The pod's request, in thousandths.
    pub requested: i128,
    /// The highest amount, in thousandths, on a node that satisfies the requests checked so far.
    pub most: i128,
    /// The node with that amount, or `None` if there are no nodes.
    pub node: Option<String>,
}

/// Finds the first resource that no remaining node has enough of. Checks devices before CPU, memory
/// and disk, because devices are scarcer.
pub fn shortage(requests: &Amounts, nodes: &BTreeMap<String, Amounts>) -> Option<Shortage> {
    let mut left: Vec<(&String, &Amounts)> = nodes.iter().collect();
    let mut scarce: Vec<(&String, &i128)> =
        requests.iter().filter(|(_, amount)| **amount > 0).collect();
    // Extended resources have a `/` in their names. CPU, memory and disk do not.
    scarce.sort_by_key(|(resource, _)| (!resource.contains('/'), *resource));
    for (resource, amount) in scarce {
        let has = |amounts: &Amounts| amount_of(amounts, resource);
        // If several nodes have the same amount, the first one by name wins, so that the answer is
        // deterministic. `max_by_key` returns the last one, hence `rev`.
        let best = left
            .iter()
            .rev()
            .max_by_key(|(_, amounts)| has(amounts))
            .map(|(node, amounts)| (*node, has(amounts)));
        left.retain(|(_, amounts)| has(amounts) >= *amount);
        if left.is_empty() {
            let (node, most) = best.unzip();
            return Some(Shortage {
                resource: resource.clone(),
                requested: *amount,
                most: most.unwrap_or(0),
                node: node.cloned(),
            });
        }
    }
    None
}

/// Lists the resources that are insufficient for one such pod, devices first.
pub fn lacking(requests: &Amounts, amounts: &Amounts) -> Vec<String> {
    let short = requests
        .iter()
        .filter(|(resource, amount)| **amount > 0 && amount_of(amounts, resource) < **amount);
    let mut short: Vec<String> = short.map(|(resource, _)| resource.clone()).collect();
    short.sort_by_key(|resource| !resource.contains('/'));
    short
}

/// Computes how many such pods fit on all nodes together. If a pod requests nothing, the number is
/// unlimited.
pub fn pods_held(requests: &Amounts, nodes: &BTreeMap<String, Amounts>) -> u64 {
    let on = |amounts: &Amounts| {
        let needed = requests.iter().filter(|(_, amount)| **amount > 0);
        needed
            .map(|(resource, amount)| amount_of(amounts, resource).max(0) / amount)
            .min()
            .unwrap_or(i128::MAX)
    };
    nodes
        .values()
        .map(|amounts| u64::try_from(on(amounts)).unwrap_or(u64::MAX))
        .fold(0, u64::saturating_add)
}

/// Returns the amount of a resource on a node. If the node does not report its CPU, memory or disk,
/// they count as sufficient. Devices that it does not report count as absent.
fn amount_of(amounts: &Amounts, resource: &str) -> i128 {
    amounts
        .get(resource)
        .copied()
        .unwrap_or(if resource.contains('/') { 0 } else { i128::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(list: &[(&str, i128)]) -> Amounts {
        list.iter()
            .map(|(name, amount)| ((*name).to_owned(), amount * 1000))
            .collect()
    }

    fn nodes() -> BTreeMap<String, Amounts> {
        BTreeMap::from([
            (
                "big".to_owned(),
                amounts(&[("nvidia.com/gpu", 8), ("cpu", 64), ("memory", 100)]),
            ),
            (
                "small".to_owned(),
                amounts(&[("nvidia.com/gpu", 4), ("cpu", 128), ("memory", 100)]),
            ),
        ])
    }

    #[test]
    fn shortage_names_the_resource_that_excludes_the_last_node() {
        let shortage_of = |list: &[(&str, i128)]| {
            shortage(&amounts(list), &nodes())
                .map(|shortage| (shortage.resource, shortage.most, shortage.node))
        };
        assert_eq!(shortage_of(&[("nvidia.com/gpu", 8), ("cpu", 64)]), None);
        assert_eq!(
            shortage_of(&[("nvidia.com/gpu", 16)]),
            Some(("nvidia.com/gpu".to_owned(), 8000, Some("big".to_owned())))
        );
        // The small node has 128 CPUs, and the big one has eight GPUs, but neither has both.
        assert_eq!(
            shortage_of(&[("nvidia.com/gpu", 8), ("cpu", 100)]),
            Some(("cpu".to_owned(), 64_000, Some("big".to_owned())))
        );
        assert_eq!(shortage_of(&[("cpu", 100)]), None);
        assert_eq!(
            shortage_of(&[("ephemeral-storage", 1 << 60)]),
            None,
            "a node that does not report its disk is not ruled out"
        );
        assert_eq!(
            shortage_of(&[("example.com/none", 1)]),
            Some(("example.com/none".to_owned(), 0, Some("big".to_owned())))
        );
        assert_eq!(
            shortage(&amounts(&[("cpu", 1)]), &BTreeMap::new())
                .unwrap()
                .node,
            None
        );
    }

    #[test]
    fn fitting_pods_are_counted_per_node() {
        let held = |list: &[(&str, i128)]| pods_held(&amounts(list), &nodes());
        // 8 / 3 and 4 / 3, both rounded down.
        assert_eq!(held(&[("nvidia.com/gpu", 3)]), 3);
        // 64 / 40 and 128 / 40.
        assert_eq!(held(&[("nvidia.com/gpu", 1), ("cpu", 40)]), 4);
        assert_eq!(held(&[("nvidia.com/gpu", 9)]), 0);
        assert_eq!(held(&[]), u64::MAX);
        assert_eq!(pods_held(&Amounts::new(), &BTreeMap::new()), 0);
    }
}
