//! Compares a pod's claims for dynamic resource allocation (DRA) with the devices that nodes offer.
//! The claims become a request for a synthetic resource, so that they are handled like an extended
//! resource. On nodes without a device plugin, DRA can also serve extended resources themselves
//! (KEP-5004).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::candidates::ClusterCapacity;
use super::capacity::Amounts;
use super::device_allocator::{
    Assumption, MOST_PODS, MatchedClaim, MatchedDemand, MatchedRequest, NodeDevices,
    available_counters,
};
use super::device_demand::{ClaimDemand, DeviceDemand, PodDevices, RequestDemand};
use super::device_supply::{CounterSets, DeviceSupply};
use crate::model::facts::node::Node;
use crate::model::facts::resource::CLASS_RESOURCE;

/// Returns the device class that an extended resource represents.
pub fn device_class(resource: &str) -> Option<&str> {
    resource.strip_prefix(CLASS_RESOURCE)
}

/// Number of devices on a node that a demand matches, or number of pods whose claims the node can
/// satisfy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassCapacity {
    /// Devices that a new claim can get.
    pub free: u64,
    /// Free devices with a taint that is not tolerated, and the key of the first such taint.
    pub tainted: u64,
    pub taint: Option<String>,
    /// All devices, including held and tainted ones.
    pub all: u64,
}

/// A resource, and the amounts that nodes offer through DRA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedDevices {
    /// The extended resource, or a synthetic one for the pod's claims.
    pub resource: String,
    /// Units that each pod requests.
    pub count: u64,
    /// Devices that each pod gets.
    pub devices_per_pod: u64,
    /// True if `count` and the capacities are numbers of pods instead of devices.
    pub counts_pods: bool,
    pub capacities: BTreeMap<String, ClassCapacity>,
}

/// Result of comparing a pod's claims with the offered devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceClaims {
    None,
    ClassMissing(String),
    /// The named ResourceClaimTemplate does not exist.
    TemplateMissing(String),
    /// The claims could not be compared, for this reason.
    NotEvaluated(String),
    /// The compared resources, with capacities by node.
    Compared(Vec<ComparedDevices>),
}

impl DeviceClaims {
    /// Compares the claims of a pod with the offered devices. `plugins` returns true if a node's
    /// device plugin offers an extended resource, so that DRA does not serve it there.
    pub fn compared(
        pod: &PodDevices,
        supply: &DeviceSupply,
        plugins: impl Fn(&str, &str) -> bool,
    ) -> Self {
        if pod.claims.is_empty() && pod.extended.is_empty() {
            return Self::None;
        }
        match DemandComparison::new(pod, supply)
            .and_then(|comparison| comparison.resources(plugins))
        {
            // Extended resources that DRA serves on no node are ordinary resources.
            Ok(resources)
                if pod.claims.is_empty()
                    && resources
                        .iter()
                        .all(|devices| devices.capacities.is_empty()) =>
            {
                Self::None
            }
            Ok(resources) => Self::Compared(resources),
            Err(NotComparable(what)) => Self::NotEvaluated(what),
        }
    }

    /// Adds the claims to the pod's requests, and the matching devices to the nodes.
    pub fn add_to(
        &self,
        requests: &mut Amounts,
        nodes: &mut [Node],
        capacity: Option<&mut ClusterCapacity>,
    ) {
        let Self::Compared(compared) = self else {
            return;
        };
        let mut free = capacity.map(|capacity| &mut capacity.free);
        for devices in compared {
            let resource = &devices.resource;
            requests.insert(resource.clone(), i128::from(devices.count) * 1000);
            for node in &mut *nodes {
                let Some(offered) = devices.capacities.get(&node.name) else {
                    continue;
                };
                // `allocatable` includes held devices, because it determines whether the pod could
                // ever fit. `free` determines whether the pod fits now.
                node.allocatable
                    .insert(resource.clone(), offered.all.to_string());
                if let Some(free) = free.as_mut().and_then(|free| free.get_mut(&node.name)) {
                    free.insert(resource.clone(), i128::from(offered.free) * 1000);
                }
            }
        }
    }

    /// Returns the devices of a class on a node, or `None` if claims were not compared.
    pub fn on_node(&self, class: &str, node: &str) -> Option<ClassCapacity> {
        let Self::Compared(compared) = self else {
            return None;
        };
        let devices = compared
            .iter()
            .find(|devices| device_class(&devices.resource) == Some(class))?;
        Some(devices.capacities.get(node).cloned().unwrap_or_default())
    }

    /// Returns true if the capacities of a class are numbers of pods, because several requests
    /// compete for the devices.
    pub fn counts_pods(&self, class: &str) -> bool {
        let Self::Compared(compared) = self else {
            return false;
        };
        let mut compared = compared.iter();
        compared
            .any(|devices| devices.counts_pods && device_class(&devices.resource) == Some(class))
    }

    /// Number of devices that the explicit claims of each pod request.
    pub fn claimed_per_pod(&self) -> u64 {
        let Self::Compared(compared) = self else {
            return 0;
        };
        let claimed = compared
            .iter()
            .filter(|devices| device_class(&devices.resource).is_some());
        claimed.map(|devices| devices.devices_per_pod).sum()
    }
}

/// What cannot be compared, as a phrase.
struct NotComparable(String);

/// A pod's demands, compared with all devices.
struct DemandComparison<'d> {
    pod: &'d PodDevices,
    supply: &'d DeviceSupply,
    /// Matches in the order of `PodDevices`: explicit claims, then extended resources.
    matches: Vec<Rc<Vec<bool>>>,
    /// Counters without those of held devices.
    available: BTreeMap<(String, String), CounterSets>,
}

impl<'d> DemandComparison<'d> {
    /// Evaluates the selectors. Returns the reason if one cannot be evaluated.
    fn new(pod: &'d PodDevices, supply: &'d DeviceSupply) -> Result<Self, NotComparable> {
        let matches: Result<Vec<_>, NotComparable> = demands(pod)
            .map(|demand| {
                demand.matches(supply).map(Rc::new).ok_or_else(|| {
                    let class = &demand.class;
                    NotComparable(format!(
                        "devices of class {class} (CEL expressions, or shared devices)"
                    ))
                })
            })
            .collect();
        Ok(Self {
            pod,
            supply,
            matches: matches?,
            available: available_counters(supply),
        })
    }

    /// Compares the claims with each node that offers matching devices.
    fn resources(
        &self,
        plugins: impl Fn(&str, &str) -> bool,
    ) -> Result<Vec<ComparedDevices>, NotComparable> {
        let (explicit, extended) = (&self.pod.claims, &self.pod.extended);
        // A single demand is counted in devices. Several demands compete for the same devices, so
        // the number of pods that get all of their devices is counted.
        let single = match demands(self.pod).count() {
            1 => demands(self.pod)
                .next()
                .filter(|demand| !demand.all && !demand.is_admin),
            _ => None,
        };
        let mut resources = Vec::new();
        if !explicit.is_empty() {
            resources.push(ComparedDevices {
                resource: format!("{CLASS_RESOURCE}{}", classes(self.pod)),
                count: single.map_or(1, |demand| demand.count),
                devices_per_pod: explicit.iter().map(ClaimDemand::devices).sum(),
                counts_pods: single.is_none(),
                capacities: BTreeMap::new(),
            });
        }
        resources.extend(extended.iter().map(|(resource, demand)| ComparedDevices {
            resource: resource.clone(),
            count: demand.count,
            devices_per_pod: demand.count,
            counts_pods: false,
            capacities: BTreeMap::new(),
        }));
        for node in self.nodes() {
            // DRA serves an extended resource where no device plugin offers it.
            let by_claim =
                |resource: &str| !extended.contains_key(resource) || !plugins(node, resource);
            if !resources.iter().any(|devices| by_claim(&devices.resource)) {
                continue;
            }
            let claims = self.claims(|resource| by_claim(resource), None);
            let capacity = match single {
                Some(demand) => self.devices(node, demand, &claims),
                None => self.capacity(node, &claims),
            };
            let capacity = capacity.ok_or_else(|| {
                NotComparable("device claims with too many possible combinations".to_owned())
            })?;
            let served = resources
                .iter_mut()
                .filter(|devices| by_claim(&devices.resource));
            for devices in served {
                let units = if single.is_some() { 1 } else { devices.count };
                devices
                    .capacities
                    .insert(node.to_owned(), capacity.times(units));
            }
        }
        Ok(resources)
    }

    /// Nodes that offer a device which a demand matches.
    fn nodes(&self) -> BTreeSet<&'d str> {
        let devices = self.supply.devices.iter().enumerate();
        devices
            .filter(|(position, _)| self.matches.iter().any(|matches| matches[*position]))
            .map(|(_, device)| device.node.as_str())
            .collect()
    }

    /// Builds the claims of a pod, including those for the extended resources that `by_claim`
    /// selects. `count` replaces the number of devices.
    fn claims(&self, by_claim: impl Fn(&str) -> bool, count: Option<u64>) -> Vec<MatchedClaim<'d>> {
        let mut matches = self.matches.iter();
        let mut matched = |demand: &'d DeviceDemand| MatchedDemand {
            demand,
            count: count.unwrap_or(demand.count),
            matches: matches.next().map(Rc::clone).unwrap_or_default(),
        };
        let mut claims: Vec<MatchedClaim<'d>> = Vec::new();
        for claim in &self.pod.claims {
            let request = |request: &'d RequestDemand| MatchedRequest {
                name: &request.name,
                alternatives: request.alternatives.iter().map(&mut matched).collect(),
            };
            claims.push(MatchedClaim {
                requests: claim.requests.iter().map(request).collect(),
                constraints: &claim.constraints,
            });
        }
        // The scheduler adds one claim for all extended resources of the pod.
        let mut requests = Vec::new();
        for (resource, demand) in &self.pod.extended {
            let alternatives = vec![matched(demand)];
            if by_claim(resource) {
                requests.push(MatchedRequest {
                    name: resource,
                    alternatives,
                });
            }
        }
        if !requests.is_empty() {
            claims.push(MatchedClaim {
                requests,
                constraints: &[],
            });
        }
        claims
    }

    /// Counts the pods whose claims a node can satisfy.
    fn capacity(&self, node: &str, claims: &[MatchedClaim<'_>]) -> Option<ClassCapacity> {
        let pods = |assumption: Assumption| {
            let counters = match assumption {
                Assumption::Empty => &self.supply.counters,
                Assumption::Now | Assumption::Untainted => &self.available,
            };
            NodeDevices::new(self.supply, counters, node, assumption).pods(claims)
        };
        let (free, untainted) = (pods(Assumption::Now)?, pods(Assumption::Untainted)?);
        let tainted = untainted.saturating_sub(free);
        Some(ClassCapacity {
            free,
            tainted,
            taint: (tainted > 0).then(|| self.taint(node)).flatten(),
            all: pods(Assumption::Empty)?,
        })
    }

    /// Counts the devices of a node that a single demand can get, so that the number of whole
    /// requests in it is the number of pods.
    fn devices(
        &self,
        node: &str,
        demand: &DeviceDemand,
        claims: &[MatchedClaim<'_>],
    ) -> Option<ClassCapacity> {
        let devices = self.capacity(node, &self.claims(|_| true, Some(1)))?;
        if demand.count == 1 {
            return Some(devices);
        }
        let pods = self.capacity(node, claims)?;
        let exact = |devices: u64, pods: u64| {
            let whole = pods.saturating_mul(demand.count);
            // The devices left over are fewer than a pod needs.
            let rest = devices.saturating_sub(whole);
            whole + rest.min(demand.count.saturating_sub(1))
        };
        let free = exact(devices.free, pods.free);
        let untainted = exact(devices.free + devices.tainted, pods.free + pods.tainted);
        Some(ClassCapacity {
            free,
            tainted: untainted.saturating_sub(free),
            all: exact(devices.all, pods.all),
            ..devices
        })
    }

    /// Key of the first taint on a free device of the node that a demand does not tolerate.
    fn taint(&self, node: &str) -> Option<String> {
        let devices = self.supply.devices.iter().enumerate();
        let on_node = devices.filter(|(_, device)| device.node == node && !device.is_held);
        let mut taints = on_node.flat_map(|(position, device)| {
            let rejected = demands(self.pod)
                .zip(&self.matches)
                .filter(move |(_, matches)| matches[position]);
            rejected.filter_map(|(demand, _)| {
                let taint = device.taints.iter().find(|taint| demand.rejects(taint))?;
                Some(taint.key.clone())
            })
        });
        taints.next()
    }
}

/// All demands of a pod: of its explicit claims, then of its extended resources.
fn demands(pod: &PodDevices) -> impl Iterator<Item = &DeviceDemand> {
    let requests = pod.claims.iter().flat_map(|claim| &claim.requests);
    let alternatives = requests.flat_map(|request| &request.alternatives);
    alternatives.chain(pod.extended.values())
}

/// Names the classes of the explicit claims.
fn classes(pod: &PodDevices) -> String {
    let requests = pod.claims.iter().flat_map(|claim| &claim.requests);
    let classes: BTreeSet<&str> = requests
        .flat_map(|request| &request.alternatives)
        .map(|demand| demand.class.as_str())
        .collect();
    classes.into_iter().collect::<Vec<_>>().join(", ")
}

impl ClassCapacity {
    fn times(&self, units: u64) -> Self {
        let times = |amount: u64| amount.min(MOST_PODS * 32).saturating_mul(units);
        Self {
            free: times(self.free),
            tainted: times(self.tainted),
            taint: self.taint.clone(),
            all: times(self.all),
        }
    }
}

#[cfg(test)]
mod tests;
