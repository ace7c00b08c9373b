//! Limits of CSI drivers on the number of volumes that pods can use on a node.
//!
//! Source: the scheduler plugin `NodeVolumeLimits` (Kubernetes 1.36). It counts the volumes of the
//! pods on a node, each once, and adds those of the new pod. Volumes without a CSI driver, and
//! nodes that report no limit, are not restricted.

use std::collections::{BTreeMap, BTreeSet};

use super::volume_facts::{VolumeFacts, limits};

/// The limits of nodes, and the volumes that count against them.
#[derive(Clone, Debug, Default)]
pub(super) struct VolumeLimits {
    demands: Vec<DriverDemand>,
    /// The limit of each driver, keyed by node.
    limits: BTreeMap<String, BTreeMap<String, u64>>,
    /// The volumes in use, keyed by node and driver.
    used: BTreeMap<(String, String), BTreeSet<String>>,
}

/// The volumes that the job's pods use with one driver.
#[derive(Clone, Debug, Default)]
struct DriverDemand {
    driver: String,
    /// Volumes that all pods mount, by their handle.
    shared: BTreeSet<String>,
    /// Number of volumes that each pod adds.
    per_pod: u64,
}

/// How many pods can use their volumes on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LimitedPods<'l> {
    pub driver: &'l str,
    pub now: u64,
    pub when_empty: u64,
}

impl DriverDemand {
    /// The number of pods that stay within a limit, given the volumes in use.
    fn pods(&self, limit: u64, used: &BTreeSet<String>) -> u64 {
        let added = self.shared.difference(used).count() as u64;
        let free = limit.saturating_sub(used.len() as u64);
        match (free.checked_sub(added), self.per_pod) {
            // Volumes that are already in use on the node count once.
            _ if added == 0 && self.per_pod == 0 => u64::MAX,
            (None, _) => 0,
            (Some(_), 0) => u64::MAX,
            (Some(rest), per_pod) => rest / per_pod,
        }
    }
}

impl VolumeLimits {
    /// Computes the limits that apply to the claims of a job. Unknown volumes in use count as none.
    pub(super) fn new(facts: &VolumeFacts) -> Self {
        let mut demands: BTreeMap<&str, DriverDemand> = BTreeMap::new();
        for claim in &facts.claims {
            let Some(driver) = facts.driver(claim) else {
                continue;
            };
            let demand = demands.entry(driver.name).or_insert_with(|| DriverDemand {
                driver: driver.name.to_owned(),
                ..DriverDemand::default()
            });
            match driver.handle {
                _ if claim.per_pod => demand.per_pod += 1,
                Some(handle) => drop(demand.shared.insert(handle.to_owned())),
                // No volume has a handle with a slash before its claim.
                None => drop(demand.shared.insert(format!("/claim/{}", claim.name))),
            }
        }
        let of_node = |node| -> BTreeMap<String, u64> {
            let relevant = limits(node).filter(|(driver, _)| demands.contains_key(driver));
            relevant
                .map(|(driver, limit)| (driver.to_owned(), limit))
                .collect()
        };
        let csi_nodes = facts.csi_nodes.iter().flatten();
        let limits = csi_nodes
            .filter_map(|node| Some((node.metadata.name.clone()?, of_node(node))))
            .filter(|(_, limits)| !limits.is_empty())
            .collect();
        Self {
            demands: demands.into_values().collect(),
            limits,
            used: used(facts),
        }
    }

    /// Whether any volume of the job has a CSI driver, whose limits then matter.
    pub(super) fn has_drivers(&self) -> bool {
        !self.demands.is_empty()
    }

    pub(super) fn has_limits(&self) -> bool {
        !self.limits.is_empty()
    }

    /// The driver with the tightest limit on a node; `None` if there is none.
    pub(super) fn pods(&self, node: &str) -> Option<LimitedPods<'_>> {
        let limits = self.limits.get(node)?;
        let nothing = BTreeSet::new();
        let of_driver = |demand: &'_ DriverDemand| {
            let limit = *limits.get(&demand.driver)?;
            let key = (node.to_owned(), demand.driver.clone());
            let used = self.used.get(&key).unwrap_or(&nothing);
            Some((demand.pods(limit, used), demand.pods(limit, &nothing)))
        };
        let limited = self.demands.iter().filter_map(|demand| {
            let (now, when_empty) = of_driver(demand)?;
            Some(LimitedPods {
                driver: &demand.driver,
                now,
                when_empty,
            })
        });
        limited.min_by_key(|pods| (pods.now, pods.when_empty))
    }
}

/// The volumes that running pods use, keyed by node and driver.
fn used(facts: &VolumeFacts) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut of_claims: BTreeMap<(&str, &str), (&str, &str)> = BTreeMap::new();
    for volume in facts.attachable.iter().flatten() {
        let Some(spec) = &volume.spec else { continue };
        if let (Some(claim), Some(source)) = (&spec.claim_ref, &spec.csi)
            && let (Some(namespace), Some(name)) = (&claim.namespace, &claim.name)
        {
            of_claims.insert((namespace, name), (&source.driver, &source.volume_handle));
        }
    }
    let mut used: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for (node, claims) in facts.mounted.iter().flatten() {
        for (namespace, name) in claims {
            if let Some((driver, handle)) = of_claims.get(&(namespace.as_str(), name.as_str())) {
                let key = (node.clone(), (*driver).to_owned());
                used.entry(key).or_default().insert((*handle).to_owned());
            }
        }
    }
    used
}
