//! Allocates the devices of one node to the claims of pods, as the scheduler does: in the order in
//! which it tries devices, with shared counters, taints, alternatives and constraints
//! (`k8s.io/dynamic-resource-allocation/structured`).

use std::collections::BTreeMap;

use super::device_demand::{DeviceConstraint, DeviceDemand};
use super::device_supply::{CounterSets, CounterUse, DeviceSupply, OfferedDevice};

/// Maximum number of devices in one claim (`AllocationResultsMaxSize`).
const MOST_PER_CLAIM: usize = 32;
/// Steps of one search, after which its result is unknown. The scheduler also gives up, after ten
/// seconds by default.
const MOST_STEPS: u32 = 100_000;
/// No node runs this many pods, so a higher number of pods makes no difference.
pub(super) const MOST_PODS: u64 = 1_000;

/// A claim, whose demands are already compared with all devices.
pub(super) struct MatchedClaim<'d> {
    pub requests: Vec<MatchedRequest<'d>>,
    pub constraints: &'d [DeviceConstraint],
}

/// A request, which one of its demands satisfies. The scheduler tries them in this order.
pub(super) struct MatchedRequest<'d> {
    pub name: &'d str,
    pub alternatives: Vec<MatchedDemand<'d>>,
}

/// A demand, and for each device of the supply whether its selectors match.
#[derive(Clone)]
pub(super) struct MatchedDemand<'d> {
    pub demand: &'d DeviceDemand,
    pub count: u64,
    pub matches: std::rc::Rc<Vec<bool>>,
}

/// The assumed state of the node's devices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Assumption {
    /// Other claims hold their devices.
    Now,
    /// As `Now`, but no device is tainted.
    Untainted,
    /// No device is held or tainted.
    Empty,
}

/// Returns true if the uses fit into the available amounts together.
pub(super) fn fits(available: &CounterSets, uses: &[&[CounterUse]]) -> bool {
    let mut left = available.clone();
    uses.iter().for_each(|uses| subtract(&mut left, uses));
    !is_exceeded(&left)
}

pub(super) fn subtract(available: &mut CounterSets, uses: &[CounterUse]) {
    change(available, uses, |amount, used| *amount -= used);
}

fn change(available: &mut CounterSets, uses: &[CounterUse], apply: impl Fn(&mut i128, i128)) {
    for used in uses {
        let Some(set) = available.get_mut(&used.set) else {
            continue;
        };
        for (counter, amount) in &used.amounts {
            if let Some(available) = set.get_mut(counter) {
                apply(available, *amount);
            }
        }
    }
}

/// Returns true if more is used than exists. The scheduler checks all counters of a pool.
fn is_exceeded(available: &CounterSets) -> bool {
    available
        .values()
        .flat_map(BTreeMap::values)
        .any(|amount| *amount < 0)
}

/// Returns the available counters of each pool, without those that held devices use.
pub(super) fn available_counters(supply: &DeviceSupply) -> BTreeMap<(String, String), CounterSets> {
    let mut pools = supply.counters.clone();
    for device in supply.devices.iter().filter(|device| device.is_held) {
        if let Some(sets) = pools.get_mut(&pool(device)) {
            subtract(sets, &device.counters);
        }
    }
    pools
}

pub(super) fn pool(device: &OfferedDevice) -> (String, String) {
    (device.key.driver.clone(), device.key.pool.clone())
}

/// Devices of one node that are not allocated yet.
pub(super) struct NodeDevices<'s> {
    /// Each device, and its position in the supply.
    devices: Vec<(usize, &'s OfferedDevice)>,
    is_used: Vec<bool>,
    counters: BTreeMap<(String, String), CounterSets>,
    assumption: Assumption,
}

impl<'s> NodeDevices<'s> {
    /// `available` contains the counters of all pools under the same assumption.
    pub(super) fn new(
        supply: &'s DeviceSupply,
        available: &BTreeMap<(String, String), CounterSets>,
        node: &str,
        assumption: Assumption,
    ) -> Self {
        let on_node = |(_, device): &(usize, &OfferedDevice)| device.node == node;
        let devices: Vec<_> = supply.devices.iter().enumerate().filter(on_node).collect();
        let is_used = |(_, device): &(usize, &OfferedDevice)| {
            (device.is_held || !device.is_pool_usable) && assumption != Assumption::Empty
        };
        let mut counters = BTreeMap::new();
        for (_, device) in &devices {
            let pool = pool(device);
            if let Some(sets) = available.get(&pool) {
                counters.entry(pool).or_insert_with(|| sets.clone());
            }
        }
        Self {
            is_used: devices.iter().map(is_used).collect(),
            devices,
            counters,
            assumption,
        }
    }

    /// Allocates the claims of one pod after the other, and returns the number of pods that get
    /// all of their devices. Returns `None` if a search takes too long.
    pub(super) fn pods(&mut self, claims: &[MatchedClaim<'_>]) -> Option<u64> {
        let mut pods = 0;
        while pods < MOST_PODS {
            let mut search = Search {
                claims,
                taken: Vec::new(),
                steps: MOST_STEPS,
                node: self,
            };
            if !search.place(SearchPosition::default())? {
                break;
            }
            let taken = search.taken;
            let admin = taken.iter().filter(|taken| taken.is_admin);
            // Access for administration reserves nothing once the allocation is complete.
            admin.for_each(|taken| self.release(taken.device));
            if taken.iter().all(|taken| taken.is_admin) {
                return Some(MOST_PODS);
            }
            for taken in taken.iter().filter(|taken| !taken.is_admin) {
                self.is_used[taken.device] = true;
            }
            pods += 1;
        }
        Some(pods)
    }

    /// Reserves the counters of a device. Returns false if they do not suffice.
    fn reserve(&mut self, device: usize) -> bool {
        let offered = self.devices[device].1;
        if offered.counters.is_empty() {
            return true;
        }
        let Some(sets) = self.counters.get_mut(&pool(offered)) else {
            return false;
        };
        subtract(sets, &offered.counters);
        let is_possible = !is_exceeded(sets);
        if !is_possible {
            self.release(device);
        }
        is_possible
    }

    fn release(&mut self, device: usize) {
        let offered = self.devices[device].1;
        if let Some(sets) = self.counters.get_mut(&pool(offered)) {
            change(sets, &offered.counters, |amount, used| *amount += used);
        }
    }
}

/// The next device to allocate.
#[derive(Clone, Copy, Default)]
struct SearchPosition {
    claim: usize,
    request: usize,
    alternative: Option<usize>,
    /// Number of devices that the request already has.
    number: u64,
    /// First device to try. Devices of one request are tried in one order only, because all other
    /// orders lead to the same allocations.
    start: usize,
}

/// A device that the pod being placed takes.
#[derive(Clone, Copy)]
struct TakenDevice {
    place: SearchPosition,
    device: usize,
    is_admin: bool,
}

/// The search for the devices of one pod, which tries all possibilities.
struct Search<'n, 's, 'd> {
    node: &'n mut NodeDevices<'s>,
    claims: &'d [MatchedClaim<'d>],
    taken: Vec<TakenDevice>,
    steps: u32,
}

impl Search<'_, '_, '_> {
    /// Allocates the device at `place` and all that follow. Returns `None` after too many steps.
    fn place(&mut self, place: SearchPosition) -> Option<bool> {
        self.steps = self.steps.checked_sub(1)?;
        let claims = self.claims;
        let Some(claim) = claims.get(place.claim) else {
            return Some(true);
        };
        let Some(request) = claim.requests.get(place.request) else {
            return self.place(SearchPosition {
                claim: place.claim + 1,
                ..SearchPosition::default()
            });
        };
        let Some(alternative) = place.alternative else {
            for alternative in 0..request.alternatives.len() {
                if self.place(SearchPosition {
                    alternative: Some(alternative),
                    ..place
                })? {
                    return Some(true);
                }
            }
            return Some(false);
        };
        let matched = &request.alternatives[alternative];
        let candidates = self.candidates(matched);
        let wanted = match matched.demand.all {
            true if candidates.is_empty() => return Some(false),
            true => candidates.len() as u64,
            false => matched.count,
        };
        if place.number >= wanted {
            return self.place(SearchPosition {
                claim: place.claim,
                request: place.request + 1,
                ..SearchPosition::default()
            });
        }
        let missing = wanted - place.number;
        let in_claim = self
            .taken
            .iter()
            .filter(|taken| taken.place.claim == place.claim);
        if in_claim.count() as u64 + missing > MOST_PER_CLAIM as u64 {
            return Some(false);
        }
        self.try_candidates(place, matched, &candidates, missing)
    }

    /// Lists the devices of the node that a demand matches.
    fn candidates(&self, matched: &MatchedDemand<'_>) -> Vec<usize> {
        let devices = self.node.devices.iter().enumerate();
        devices
            .filter(|(_, (position, _))| matched.matches[*position])
            .map(|(device, _)| device)
            .collect()
    }

    fn try_candidates(
        &mut self,
        place: SearchPosition,
        matched: &MatchedDemand<'_>,
        candidates: &[usize],
        missing: u64,
    ) -> Option<bool> {
        let is_possible = |device: &&usize| {
            **device >= place.start && (matched.demand.is_admin || !self.is_taken(**device))
        };
        let possible: Vec<usize> = candidates.iter().filter(is_possible).copied().collect();
        for (index, device) in possible.iter().copied().enumerate() {
            // Too few devices remain, so no later one can complete the request.
            if ((possible.len() - index) as u64) < missing {
                return Some(false);
            }
            let is_taken = self.take(place, matched, device);
            if is_taken {
                if self.place(SearchPosition {
                    number: place.number + 1,
                    start: device + 1,
                    ..place
                })? {
                    return Some(true);
                }
                self.taken.pop();
                self.node.release(device);
            }
            // A demand for all devices fails with the first one that it cannot get.
            if matched.demand.all {
                return Some(false);
            }
        }
        Some(false)
    }

    fn is_taken(&self, device: usize) -> bool {
        self.node.is_used[device] || self.taken.iter().any(|taken| taken.device == device)
    }

    /// Takes a device if its counters, its taints and the claim's constraints allow it.
    fn take(&mut self, place: SearchPosition, matched: &MatchedDemand<'_>, device: usize) -> bool {
        let demand = matched.demand;
        let in_same_claim =
            |taken: &TakenDevice| taken.device == device && taken.place.claim == place.claim;
        let is_unavailable = match demand.is_admin {
            true => self.taken.iter().any(in_same_claim),
            false => self.is_taken(device),
        };
        let offered = self.node.devices[device].1;
        let is_rejected = self.node.assumption == Assumption::Now
            && offered.taints.iter().any(|taint| demand.rejects(taint));
        if is_unavailable || is_rejected || !self.meets_constraints(place, device) {
            return false;
        }
        let is_reserved = self.node.reserve(device);
        if is_reserved {
            self.taken.push(TakenDevice {
                place,
                device,
                is_admin: demand.is_admin,
            });
        }
        is_reserved
    }

    fn meets_constraints(&self, place: SearchPosition, device: usize) -> bool {
        let constraints = self.claims[place.claim].constraints.iter();
        let value =
            |device: usize, attribute: &str| self.node.devices[device].1.attributes.get(attribute);
        constraints
            .filter(|constraint| self.is_constrained(constraint, place))
            .all(|constraint| {
                let Some(own) = value(device, &constraint.attribute) else {
                    return false;
                };
                let others = self.taken.iter().filter(|taken| {
                    taken.place.claim == place.claim && self.is_constrained(constraint, taken.place)
                });
                if !constraint.is_distinct {
                    let mut values = others.map(|other| value(other.device, &constraint.attribute));
                    return values.all(|other| other == Some(own));
                }
                // The scheduler remembers only the last value of each request.
                let last: BTreeMap<usize, usize> = others
                    .map(|taken| (taken.place.request, taken.device))
                    .collect();
                let mut values = last
                    .values()
                    .map(|other| value(*other, &constraint.attribute));
                values.all(|other| other != Some(own))
            })
    }

    /// Returns true if the constraint applies to the request of a place.
    fn is_constrained(&self, constraint: &DeviceConstraint, place: SearchPosition) -> bool {
        let request = &self.claims[place.claim].requests[place.request];
        let alternative = &request.alternatives[place.alternative.unwrap_or(0)];
        let full_name = format!("{}/{}", request.name, alternative.demand.name);
        constraint.requests.is_empty()
            || constraint
                .requests
                .iter()
                .any(|name| name == request.name || *name == full_name)
    }
}
