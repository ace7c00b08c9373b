//! Compares the requests of a pod with the capacity of nodes: finds the resource that is short on
//! every node, and computes the number of pods that fit. Ignores taints and running pods.

use std::collections::BTreeMap;

/// Amounts by resource, in thousandths of the unit so that CPU amounts are integers.
pub type Amounts = BTreeMap<String, i128>;

/// A resource that no node has enough of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Kubernetes' name of the resource, such as `nvidia.com/gpu` or `memory`.
    pub resource: String,
    /// The pod's request, in thousandths.
    pub requested: i128,
    /// Largest amount, in thousandths, on a node with enough of the resources checked earlier.
    pub most: i128,
    /// The node with that amount, or `None` if there are no nodes.
    pub node: Option<String>,
}

/// Returns the first resource that no node has enough of, considering only nodes with enough of the
/// resources before it. Devices are checked before CPU, memory and disk, because they are scarcer.
pub fn shortage(requests: &Amounts, nodes: &BTreeMap<String, Amounts>) -> Option<Shortage> {
    let mut left: Vec<(&String, &Amounts)> = nodes.iter().collect();
    let mut scarce: Vec<(&String, &i128)> =
        requests.iter().filter(|(_, amount)| **amount > 0).collect();
    // Names of extended resources contain a `/`, unlike CPU, memory and disk.
    scarce.sort_by_key(|(resource, _)| (!resource.contains('/'), *resource));
    for (resource, amount) in scarce {
        let has = |amounts: &Amounts| amount_of(amounts, resource);
        // `max_by_key` returns the last maximum, so reverse the order to get the first node by
        // name.
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

/// Returns the resources that are insufficient for one pod, devices first.
pub fn lacking(requests: &Amounts, amounts: &Amounts) -> Vec<String> {
    let short = requests
        .iter()
        .filter(|(resource, amount)| **amount > 0 && amount_of(amounts, resource) < **amount);
    let mut short: Vec<String> = short.map(|(resource, _)| resource.clone()).collect();
    short.sort_by_key(|resource| !resource.contains('/'));
    short
}

/// Computes the number of pods that fit on all nodes together, or `u64::MAX` if the pod requests
/// nothing.
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

/// Returns the amount of a resource on a node. CPU, memory or disk that the node does not report
/// count as unlimited, and unreported devices as 0.
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
