//! Counts the devices of one node, and the devices that pods and claims hold.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::consumer::{Consumer, MachineRequests};
use super::count::Count;
use super::node_usage::{Device, Holder, NodeUsage, UNTYPED};
use crate::model::facts::gpu::GpuType;
use crate::model::facts::host::{NodeDetails, NodeHealth, Unit, health, unit};
use crate::model::values::omissions;
use crate::model::values::omissions::Omission;
use crate::model::values::quantity;
use crate::model::values::units::{GpuCount, MOST_PER_NODE};

/// Counts the used resources of a node. `consumers` are its pods that request devices. `others`
/// sums all other pods, or is `None` if the user cannot list pods. `by_name` resolves the pod names
/// in claims.
pub(super) fn host_use(
    host: NodeDetails,
    consumers: &[&Consumer],
    others: Option<MachineRequests>,
    devices: &[&Device],
    by_name: &HashMap<(&str, &str), &Consumer>,
) -> NodeUsage {
    let mut tally = HostTally::new(&host, others.is_some());
    tally.add_allocatable();
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
            tally.add_request(consumer, resource, *amount);
        }
    }
    // Tainted devices are not available, so count them only if a claim holds them.
    for device in devices
        .iter()
        .filter(|device| device.taint.is_none() || device.is_taken())
    {
        tally.add_device(device, by_name);
    }
    let HostTally {
        gpus,
        slices,
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
    NodeUsage {
        cpu_used_milli: used.map(|used| used.cpu_milli),
        memory_used_bytes: used.map(|used| used.memory_bytes),
        details: host,
        health,
        reason,
        gpus,
        slices,
        types,
        holders: holders.into_values().collect(),
        devices: None,
    }
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
    types: BTreeMap<String, u64>,
    /// Holders by namespace and name of the pod.
    holders: BTreeMap<(Rc<str>, Rc<str>), Holder>,
}

impl<'h> HostTally<'h> {
    fn new(host: &'h NodeDetails, pods_are_known: bool) -> Self {
        let empty = Count {
            total: 0,
            used: pods_are_known.then_some(0),
        };
        Self {
            host,
            gpu_type: host
                .node
                .type_label()
                .and_then(|(_, value)| GpuType::parse(value))
                .map(|kind| kind.to_string()),
            empty,
            gpus: empty,
            slices: BTreeMap::new(),
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

    /// Adds the devices that the node offers as extended resources.
    fn add_allocatable(&mut self) {
        let host = self.host;
        for (resource, amount) in &host.allocatable {
            let (Some(unit), Some(amount)) = (unit(&host.node, resource), quantity::whole(amount))
            else {
                continue;
            };
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
                    self.gpus.total += amount;
                    if amount > 0 {
                        self.add_type(None, amount);
                    }
                }
                Unit::Slice(name) if amount > 0 => {
                    self.slices.entry(name).or_insert(self.empty).total += amount;
                }
                Unit::Slice(_) => {}
            }
        }
    }

    /// Adds the devices that a pod requests as an extended resource.
    fn add_request(&mut self, consumer: &Consumer, resource: &str, amount: u64) {
        let Some(unit) = unit(&self.host.node, resource) else {
            return;
        };
        let key = (Rc::clone(&consumer.namespace), Rc::clone(&consumer.name));
        let entry = self
            .holders
            .entry(key)
            .or_insert_with(|| Holder::without_devices(consumer));
        match unit {
            Unit::Whole => {
                self.gpus.used = self.gpus.used.map(|used| used.saturating_add(amount));
                entry.gpus += GpuCount(amount);
            }
            Unit::Slice(name) => {
                let count = self.slices.entry(name.clone()).or_insert(self.empty);
                count.used = count.used.map(|used| used.saturating_add(amount));
                let held = entry.slices.entry(name).or_default();
                *held = held.saturating_add(amount);
            }
        }
    }

    /// Adds a DRA device and the pods that hold it.
    fn add_device(&mut self, device: &Device, by_name: &HashMap<(&str, &str), &Consumer>) {
        let taken = u64::from(device.is_taken());
        // Claims are a separate resource of the API, so usage by claims can be known even if pods
        // cannot be listed.
        let count = Count {
            total: 1,
            used: device.claims_readable.then_some(taken),
        };
        match &device.profile {
            None => {
                self.gpus.add(count);
                let product = device.product.as_deref().and_then(GpuType::parse);
                self.add_type(product.map(|kind| kind.to_string()), 1);
            }
            Some(profile) => self
                .slices
                .entry(profile.clone())
                .or_insert(self.empty)
                .add(count),
        }
        for (namespace, pod) in device.held_by.iter().flatten() {
            let consumer = by_name.get(&(namespace.as_str(), pod.as_str())).copied();
            let unseen = || Holder {
                namespace: namespace.as_str().into(),
                pod: pod.as_str().into(),
                job: None,
                gpus: GpuCount::ZERO,
                slices: BTreeMap::new(),
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
