//! Compares what one pod requests with what nodes have: which resource is missing on every node,
//! and how many such pods the nodes hold. It knows neither taints nor who holds what.

use std::collections::BTreeMap;

/// Amounts by resource, in thousandths of the resource's unit, so that CPUs stay whole numbers.
pub type Amounts = BTreeMap<String, i128>;

/// A resource of which no node has as much as a pod requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Kubernetes' name: `nvidia.com/gpu`, `memory`.
    pub resource: String,
    /// What the pod requests, in thousandths.
    pub requested: i128,
    /// The most that any node has that has enough of what was looked at before, in thousandths.
    pub most: i128,
    /// That node; `None` where no node is left.
    pub node: Option<String>,
}

/// Returns the first resource that rules out the last node: devices before CPU, memory and disk,
/// for those are scarcer.
pub fn shortage(requests: &Amounts, nodes: &BTreeMap<String, Amounts>) -> Option<Shortage> {
    let mut left: Vec<(&String, &Amounts)> = nodes.iter().collect();
    let mut wanted: Vec<(&String, &i128)> =
        requests.iter().filter(|(_, amount)| **amount > 0).collect();
    wanted.sort_by_key(|(resource, _)| (!resource.contains('/'), *resource));
    for (resource, amount) in wanted {
        let has = |amounts: &Amounts| had(amounts, resource);
        // Among equal ones the first by name is taken, so that the answer is the same every time.
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

/// Returns the resources of which there is too little for one such pod, devices first.
pub fn lacking(requests: &Amounts, amounts: &Amounts) -> Vec<String> {
    let short = requests
        .iter()
        .filter(|(resource, amount)| **amount > 0 && had(amounts, resource) < **amount);
    let mut short: Vec<String> = short.map(|(resource, _)| resource.clone()).collect();
    short.sort_by_key(|resource| !resource.contains('/'));
    short
}

/// Returns how many such pods the nodes hold together; a node holds any number of pods that request
/// nothing.
pub fn pods_held(requests: &Amounts, nodes: &BTreeMap<String, Amounts>) -> u64 {
    let on = |amounts: &Amounts| {
        let each = requests.iter().filter(|(_, amount)| **amount > 0);
        each.map(|(resource, amount)| had(amounts, resource).max(0) / amount)
            .min()
            .unwrap_or(i128::MAX)
    };
    nodes
        .values()
        .map(|amounts| u64::try_from(on(amounts)).unwrap_or(u64::MAX))
        .fold(0, u64::saturating_add)
}

/// Returns how much a node has. One that does not report its CPU, memory or disk is taken to have
/// enough; of devices it has none.
fn had(amounts: &Amounts, resource: &str) -> i128 {
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
    fn the_resource_that_rules_out_the_last_node_is_told() {
        let of = |list: &[(&str, i128)]| {
            shortage(&amounts(list), &nodes()).map(|found| (found.resource, found.most, found.node))
        };
        assert_eq!(of(&[("nvidia.com/gpu", 8), ("cpu", 64)]), None);
        assert_eq!(
            of(&[("nvidia.com/gpu", 16)]),
            Some(("nvidia.com/gpu".to_owned(), 8000, Some("big".to_owned())))
        );
        // 128 CPUs are there, and not beside eight GPUs.
        assert_eq!(
            of(&[("nvidia.com/gpu", 8), ("cpu", 100)]),
            Some(("cpu".to_owned(), 64_000, Some("big".to_owned())))
        );
        assert_eq!(of(&[("cpu", 100)]), None);
        assert_eq!(
            of(&[("ephemeral-storage", 1 << 60)]),
            None,
            "a node that does not report its disk is not ruled out"
        );
        assert_eq!(
            of(&[("example.com/none", 1)]),
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
    fn pods_are_counted_node_by_node() {
        let held = |list: &[(&str, i128)]| pods_held(&amounts(list), &nodes());
        // 8 / 3 and 4 / 3, each rounded down.
        assert_eq!(held(&[("nvidia.com/gpu", 3)]), 3);
        // 64 / 40 and 128 / 40.
        assert_eq!(held(&[("nvidia.com/gpu", 1), ("cpu", 40)]), 4);
        assert_eq!(held(&[("nvidia.com/gpu", 9)]), 0);
        assert_eq!(held(&[]), u64::MAX);
        assert_eq!(pods_held(&Amounts::new(), &BTreeMap::new()), 0);
    }
}
