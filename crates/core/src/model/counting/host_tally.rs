//! Counts the devices of one node, and the devices that pods and claims hold.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::consumer::{Consumer, MachineRequests};
use super::count::Count;
use super::node_usage::{Device, Holder, NodeUsage, UNTYPED};
use super::stranded::{HostPerGpu, closed};
use crate::model::facts::gpu::GpuType;
use crate::model::facts::host::{NodeDetails, NodeHealth, health};
use crate::model::facts::resource::passthrough_model;
use crate::model::facts::unit::{SHARED, Slice, Unit, unit};
use crate::model::values::omissions;
use crate::model::values::omissions::Omission;
use crate::model::values::quantity;
use crate::model::values::units::{GpuCount, MOST_PER_NODE};

/// Counts the used resources of a node. `consumers` are its pods that request devices. `others`
/// sums all other pods, or is `None` if the user cannot list pods. `by_name` resolves the pod names
/// in claims.
pub(super) fn host_use(
    mut host: NodeDetails,
    consumers: &[&Consumer],
    others: Option<MachineRequests>,
    devices: &[&Device],
    by_name: &HashMap<(&str, &str), &Consumer>,
) -> NodeUsage {
    host.may_be_claimed |= !devices.is_empty();
    let mut tally = HostTally::new(&host, others.is_some());
    tally.add_resources();
    // A DRA driver may serve an extended resource through claims (KEP-5004). The claim already
    // counts those devices, so skip the pod's request. A kubelet whose device plugin was removed
    // keeps the resource with an amount of 0.
    let is_offered = |amounts: &BTreeMap<String, String>, resource: &str| {
        let amount = amounts.get(resource).and_then(|text| quantity::whole(text));
        amount.is_some_and(|amount| amount > 0)
    };
    let by_claim = |resource: &str| {
        !devices.is_empty()
            && !is_offered(&host.capacity, resource)
            && !is_offered(&host.allocatable, resource)
    };
    for consumer in consumers {
        for (resource, amount) in consumer
            .devices
            .iter()
            .filter(|(resource, amount)| **amount > 0 && !by_claim(resource))
        {
            let sharers: Vec<&Consumer> = consumers
                .iter()
                .copied()
                .filter(|other| consumer.reserves() && other.shares(consumer))
                .collect();
            match sharers.is_empty() {
                true => tally.add_request(consumer, resource, *amount),
                false => tally.add_reserved(&sharers, resource, *amount),
            }
        }
    }
    for device in devices {
        tally.add_device(device, by_name);
    }
    let HostTally {
        gpus,
        slices,
        listed_board_slices,
        types,
        holders,
        ..
    } = tally;
    let (health, reason) = health_with(&host, devices);
    let used = others.map(|mut used| {
        consumers
            .iter()
            .for_each(|consumer| used += consumer.requests);
        used
    });
    with_stranded_units(NodeUsage {
        cpu_used_milli: used.map(|used| used.cpu_milli),
        memory_used_bytes: used.map(|used| used.memory_bytes),
        details: host,
        health,
        reason,
        gpus,
        slices,
        listed_board_slices,
        types,
        holders: holders.into_values().collect(),
        devices: None,
    })
}

/// Marks the units that no job can get: those of a node that accepts no new pods, or that has no
/// CPU or memory for another job.
fn with_stranded_units(mut usage: NodeUsage) -> NodeUsage {
    if closed(&usage).is_some() {
        usage.gpus.close();
        usage.slices.values_mut().for_each(Count::close);
    } else if let Some((0, _) | (_, 0)) = HostPerGpu::SMALLEST.units_on(&usage) {
        // The request is that of a container, which may hold all free units of the node.
        usage.gpus.starve();
        usage.slices.values_mut().for_each(Count::starve);
    }
    usage
}

/// Counts of a node in progress.
struct HostTally<'h> {
    host: &'h NodeDetails,
    /// The device type from the node's labels.
    gpu_type: Option<String>,
    /// Initial count of a resource, whose usage is `None` if it is unknown.
    empty: Count,
    gpus: Count,
    slices: BTreeMap<String, Count>,
    listed_board_slices: BTreeMap<String, u64>,
    types: BTreeMap<String, u64>,
    /// Holders by namespace and name of the pod.
    holders: BTreeMap<(Rc<str>, Rc<str>), Holder>,
}

impl<'h> HostTally<'h> {
    fn new(host: &'h NodeDetails, pods_are_known: bool) -> Self {
        let empty = Count::usable_units(0, pods_are_known.then_some(0));
        Self {
            host,
            gpu_type: host.node.model().map(|kind| kind.to_string()),
            empty,
            gpus: empty,
            slices: BTreeMap::new(),
            listed_board_slices: BTreeMap::new(),
            types: BTreeMap::new(),
            holders: BTreeMap::new(),
        }
    }

    /// Adds whole devices of a type, by default of the type in the node's labels.
    fn add_type(&mut self, product: Option<String>, amount: u64) {
        let kind = product
            .or_else(|| self.gpu_type.clone())
            .unwrap_or_else(|| UNTYPED.to_owned());
        *self.types.entry(kind).or_default() += amount;
    }

    /// Adds the devices of the node that are extended resources, whether or not the kubelet offers
    /// them to pods.
    fn add_resources(&mut self) {
        let host = self.host;
        let resources: BTreeSet<&String> = host
            .capacity
            .keys()
            .chain(host.allocatable.keys())
            .collect();
        for resource in resources {
            let Some(unit) = unit(&host.node, &host.capacity, resource) else {
                continue;
            };
            let amount_in = |map: &BTreeMap<String, String>| {
                map.get(resource).and_then(|text| quantity::whole(text))
            };
            let allocatable = amount_in(&host.allocatable).unwrap_or(0);
            let amount = host.installed_units(resource).unwrap_or(0);
            // Skip absurd amounts: one would dominate every sum over the cluster.
            if amount > MOST_PER_NODE {
                omissions::note(
                    Omission::AbsurdAmount,
                    format!("{resource} of node {}", host.node.name),
                );
                continue;
            }
            match unit {
                Unit::Whole => {
                    self.gpus.add_capacity(amount, allocatable);
                    if amount > 0 {
                        self.add_type(passthrough_type(resource), amount);
                    }
                }
                Unit::Slice(slice) if amount > 0 => {
                    let count = self.slices.entry(slice.name).or_insert(self.empty);
                    count.add_capacity(amount, allocatable);
                }
                Unit::Slice(_) => {}
            }
        }
    }

    /// Adds the devices that a pod requests as an extended resource.
    fn add_request(&mut self, consumer: &Consumer, resource: &str, amount: u64) {
        let Some(unit) = unit(&self.host.node, &self.host.capacity, resource) else {
            return;
        };
        let key = (Rc::clone(&consumer.namespace), Rc::clone(&consumer.name));
        let entry = self
            .holders
            .entry(key)
            .or_insert_with(|| Holder::without_devices(consumer));
        match unit {
            Unit::Whole => {
                self.gpus.hold(amount);
                entry.gpus += GpuCount(amount);
            }
            Unit::Slice(Slice { name, .. }) => {
                let count = self.slices.entry(name.clone()).or_insert(self.empty);
                count.hold(amount);
                let held = entry.slices.entry(name).or_default();
                *held = held.saturating_add(amount);
            }
        }
    }

    /// Adds the devices of a reservation, which the pods of its group hold.
    fn add_reserved(&mut self, sharers: &[&Consumer], resource: &str, amount: u64) {
        let Some(unit) = unit(&self.host.node, &self.host.capacity, resource) else {
            return;
        };
        let is_whole = matches!(unit, Unit::Whole);
        let count = match unit {
            Unit::Whole => &mut self.gpus,
            Unit::Slice(Slice { name, .. }) => self.slices.entry(name).or_insert(self.empty),
        };
        count.hold(amount);
        for sharer in sharers {
            let key = (Rc::clone(&sharer.namespace), Rc::clone(&sharer.name));
            let holder = self
                .holders
                .entry(key)
                .or_insert_with(|| Holder::without_devices(sharer));
            holder.shares_whole |= is_whole;
            let held = holder.slices.entry(SHARED.to_owned()).or_default();
            *held = held.saturating_add(amount);
            holder.shares_whole |= is_whole;
        }
    }

    /// Adds a DRA device and the pods that hold it.
    fn add_device(&mut self, device: &Device, by_name: &HashMap<(&str, &str), &Consumer>) {
        // Claims are a separate resource of the API, so usage by claims can be known even if pods
        // cannot be listed.
        let is_held = device.claims_readable.then_some(device.is_taken());
        let is_lost = device.taint.is_some();
        match &device.profile {
            None => {
                self.gpus.add_device(is_lost, is_held);
                let product = device.product.as_deref().and_then(GpuType::parse);
                self.add_type(product.map(|kind| kind.to_string()), 1);
            }
            Some(profile) => {
                let count = self.slices.entry(profile.clone()).or_insert(self.empty);
                count.add_device(is_lost, is_held);
                if device.is_of_listed_board {
                    *self.listed_board_slices.entry(profile.clone()).or_default() += 1;
                }
            }
        }
        for (namespace, pod) in device.held_by.iter().flatten() {
            let consumer = by_name.get(&(namespace.as_str(), pod.as_str())).copied();
            let unseen = || Holder {
                namespace: namespace.as_str().into(),
                pod: pod.as_str().into(),
                job: None,
                gpus: GpuCount::ZERO,
                slices: BTreeMap::new(),
                shares_whole: false,
            };
            let entry = self
                .holders
                .entry((namespace.as_str().into(), pod.as_str().into()))
                .or_insert_with(|| consumer.map_or_else(unseen, Holder::without_devices));
            match &device.profile {
                None => entry.gpus += GpuCount(1),
                Some(profile) => *entry.slices.entry(profile.clone()).or_default() += 1,
            }
        }
    }
}

/// Returns the type of devices that are passed through to virtual machines.
fn passthrough_type(resource: &str) -> Option<String> {
    GpuType::parse(passthrough_model(resource)?).map(|kind| kind.to_string())
}

/// Returns the health of a node and the reason. A tainted device makes an active node faulty.
fn health_with(host: &NodeDetails, devices: &[&Device]) -> (NodeHealth, Option<String>) {
    match health(host) {
        (NodeHealth::Active, _) if devices.iter().any(|device| device.taint.is_some()) => {
            let tainted: Vec<&str> = devices
                .iter()
                .filter_map(|device| device.taint.as_deref())
                .collect();
            let reason = format!(
                "{} of {} devices tainted ({})",
                tainted.len(),
                devices.len(),
                tainted[0]
            );
            (NodeHealth::Faulty, Some(reason))
        }
        other => other,
    }
}
