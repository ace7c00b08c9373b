//! Counts who holds which GPU, from nodes, pods and dynamically allocated devices; every command
//! shows these counts. Whole devices and slices are counted separately; what may not be read is
//! unknown, never free.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::consumer::{Consumer, Consumers, MachineRequests};
pub use super::count::Count;
use crate::model::facts::gpu::GpuType;
use crate::model::facts::host::{NodeDetails, NodeHealth, Unit, health, unit};
use crate::model::facts::reading::Reading;
use crate::model::values::left_out;
use crate::model::values::left_out::LeftOut;
use crate::model::values::quantity;
use crate::model::values::units::{GpuCount, MOST_PER_NODE};

/// A device that a driver offers by dynamic resource allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    pub node: String,
    /// The driver that offers it.
    pub driver: String,
    /// The key of a taint that keeps claims off it.
    pub taint: Option<String>,
    /// `None` for a whole device, else the MIG profile.
    pub profile: Option<String>,
    pub product: Option<String>,
    /// Pods that a claim with this device is reserved for, as (namespace, name); `None` while
    /// nobody has it.
    pub held_by: Option<Vec<(String, String)>>,
    /// False when claims may not be read, so that nobody knows who has it.
    pub known: bool,
}

/// A pod that holds devices of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub namespace: Rc<str>,
    pub pod: Rc<str>,
    pub job: Option<Rc<str>>,
    /// Whole devices.
    pub gpus: GpuCount,
    pub slices: BTreeMap<String, u64>,
}

/// A node and what is taken of it.
#[derive(Clone, Debug)]
pub struct NodeUsage {
    pub details: NodeDetails,
    pub health: NodeHealth,
    /// Why it is not active.
    pub reason: Option<String>,
    /// Whole devices; zero in all where the node has none.
    pub gpus: Count,
    /// Slices and shares by their resource's own name: `mig-1g.10gb`, `gpu.shared`.
    pub slices: BTreeMap<String, Count>,
    /// Whole devices by type.
    pub types: BTreeMap<String, u64>,
    pub cpu_used_milli: Option<u64>,
    pub memory_used_bytes: Option<u64>,
    pub holders: Vec<Holder>,
    /// What its devices measure; `None` without a metrics source.
    pub devices: Option<Vec<Reading>>,
}

impl NodeUsage {
    pub fn name(&self) -> &str {
        &self.details.node.name
    }

    /// Types of the node's devices, of slices too, as far as a label tells.
    pub fn kinds(&self) -> Vec<GpuType> {
        let whole: Vec<GpuType> = self
            .types
            .keys()
            .filter(|kind| *kind != UNTYPED)
            .filter_map(|kind| GpuType::parse(kind))
            .collect();
        match self
            .details
            .node
            .gpu_type()
            .filter(|_| self.types.is_empty() && !self.slices.is_empty())
        {
            Some(kind) => vec![kind],
            None => whole,
        }
    }

    /// Returns the one type of the node's devices; `None` without devices, with several types, or
    /// where no label tells.
    pub fn gpu_type(&self) -> Option<GpuType> {
        self.kinds()
            .pop()
            .filter(|_| self.kinds().len() == 1 && self.types.len() < 2)
    }

    /// Sums a resource over all nodes, in thousandths of its unit.
    pub fn capacity_milli(&self, resource: &str) -> Option<i128> {
        self.details
            .capacity
            .get(resource)
            .and_then(|text| quantity::milli(text))
    }

    pub fn has_gpus(&self) -> bool {
        self.gpus.total > 0 || !self.slices.is_empty()
    }
}

/// Everything that is known of the GPUs of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    pub hosts: Vec<NodeUsage>,
}

impl Inventory {
    /// Counts. `consumers` is `None` when the pods of all namespaces may not be listed.
    pub fn of(hosts: Vec<NodeDetails>, consumers: Option<&Consumers>, devices: &[Device]) -> Self {
        let mut by_node: BTreeMap<&str, Vec<&Consumer>> = BTreeMap::new();
        let with_devices = consumers
            .map(|all| all.with_devices.as_slice())
            .unwrap_or_default();
        // Bound pods hold, also while they pull their image or terminate.
        for (node, consumer) in with_devices
            .iter()
            .filter_map(|consumer| Some((consumer.node.as_deref()?, consumer)))
        {
            by_node.entry(node).or_default().push(consumer);
        }
        // Only claims name pods.
        let are_claimed = devices.iter().any(|device| device.held_by.is_some());
        let named = with_devices.iter().filter(|_| are_claimed);
        let by_name: HashMap<(&str, &str), &Consumer> = named
            .map(|pod| ((&*pod.namespace, &*pod.name), pod))
            .collect();
        let mut offered: HashMap<&str, Vec<&Device>> = HashMap::new();
        devices
            .iter()
            .for_each(|device| offered.entry(&device.node).or_default().push(device));
        let mut hosts: Vec<NodeUsage> = hosts
            .into_iter()
            .map(|host| {
                let name = host.node.name.clone();
                let own = by_node.remove(name.as_str()).unwrap_or_default();
                let devices = offered.remove(name.as_str()).unwrap_or_default();
                let others = consumers.map(|all| all.others_on(&name));
                host_use(host, &own, others, &devices, &by_name)
            })
            .collect();
        hosts.sort_by(|a, b| a.name().cmp(b.name()));
        Self { hosts }
    }

    /// Counts the whole devices of all nodes.
    pub fn gpus(&self) -> Count {
        total(self.hosts.iter().map(|host| host.gpus))
    }

    /// Nodes of a pool.
    pub fn pool<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a NodeUsage> {
        self.hosts
            .iter()
            .filter(move |host| host.details.node.pool() == Some(pool))
    }

    /// Returns every pool that a node is in.
    pub fn pools(&self) -> BTreeSet<&str> {
        self.hosts
            .iter()
            .filter_map(|host| host.details.node.pool())
            .collect()
    }
}

/// Returns the sum of counts; one that is not known makes the sum unknown.
pub fn total(counts: impl Iterator<Item = Count>) -> Count {
    let mut sum = Count {
        total: 0,
        used: Some(0),
    };
    counts.for_each(|count| sum.add(count));
    sum
}

/// Counts what is held of a node: by pods that ask for devices, by the other ones, which is `None`
/// when pods may not be listed, and by claims of pods, which are looked up by namespace and name.
fn host_use(
    host: NodeDetails,
    consumers: &[&Consumer],
    others: Option<MachineRequests>,
    devices: &[&Device],
    by_name: &HashMap<(&str, &str), &Consumer>,
) -> NodeUsage {
    let empty = Count {
        total: 0,
        used: others.map(|_| 0),
    };
    let (mut gpus, mut slices) = (empty, BTreeMap::<String, Count>::new());
    let mut types: BTreeMap<String, u64> = BTreeMap::new();
    let own_type = host
        .node
        .type_label()
        .and_then(|(_, value)| GpuType::parse(value))
        .map(|kind| kind.to_string());
    for (resource, amount) in &host.allocatable {
        let (Some(unit), Some(amount)) = (unit(&host.node, resource), quantity::whole(amount))
        else {
            continue;
        };
        if amount > MOST_PER_NODE {
            left_out::note(
                LeftOut::AbsurdAmount,
                format!("{resource} of node {}", host.node.name),
            );
            continue;
        }
        match unit {
            Unit::Whole => {
                gpus.total += amount;
                if amount > 0 {
                    *types
                        .entry(own_type.clone().unwrap_or_else(|| UNTYPED.to_owned()))
                        .or_default() += amount;
                }
            }
            Unit::Slice(name) if amount > 0 => slices.entry(name).or_insert(empty).total += amount,
            Unit::Slice(_) => {}
        }
    }
    let mut holders: BTreeMap<(Rc<str>, Rc<str>), Holder> = BTreeMap::new();
    let holder = |consumer: &Consumer| Holder {
        namespace: Rc::clone(&consumer.namespace),
        pod: Rc::clone(&consumer.name),
        job: consumer.job.clone(),
        gpus: GpuCount::ZERO,
        slices: BTreeMap::new(),
    };
    // A driver may serve an extended resource by claims: what a pod asks for by that name is
    // counted by its claim.
    let by_claim = |resource: &String| {
        !devices.is_empty()
            && !host.capacity.contains_key(resource)
            && !host.allocatable.contains_key(resource)
    };
    for consumer in consumers {
        for (resource, amount) in consumer
            .devices
            .iter()
            .filter(|(resource, amount)| **amount > 0 && !by_claim(resource))
        {
            let Some(unit) = unit(&host.node, resource) else {
                continue;
            };
            let key = (Rc::clone(&consumer.namespace), Rc::clone(&consumer.name));
            let entry = holders.entry(key).or_insert_with(|| holder(consumer));
            match unit {
                Unit::Whole => {
                    gpus.used = gpus.used.map(|used| used.saturating_add(*amount));
                    entry.gpus += GpuCount(*amount);
                }
                Unit::Slice(name) => {
                    let count = slices.entry(name.clone()).or_insert(empty);
                    count.used = count.used.map(|used| used.saturating_add(*amount));
                    let held = entry.slices.entry(name).or_default();
                    *held = held.saturating_add(*amount);
                }
            }
        }
    }
    // One that nobody may claim any more counts as long as somebody has it.
    for device in devices
        .iter()
        .filter(|device| device.taint.is_none() || device.held_by.is_some())
    {
        let product = device
            .product
            .as_deref()
            .and_then(GpuType::parse)
            .map(|kind| kind.to_string());
        let taken = u64::from(device.held_by.is_some());
        // Claims are seen by themselves, whether pods are or not.
        let count = Count {
            total: 1,
            used: device.known.then_some(taken),
        };
        match &device.profile {
            None => {
                gpus.add(count);
                *types
                    .entry(
                        product
                            .or_else(|| own_type.clone())
                            .unwrap_or_else(|| UNTYPED.to_owned()),
                    )
                    .or_default() += 1;
            }
            Some(profile) => slices
                .entry(format!("mig-{profile}"))
                .or_insert(empty)
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
            let entry = holders
                .entry((namespace.as_str().into(), pod.as_str().into()))
                .or_insert_with(|| consumer.map_or_else(unseen, holder));
            match &device.profile {
                None => entry.gpus += GpuCount(1),
                Some(profile) => *entry.slices.entry(format!("mig-{profile}")).or_default() += 1,
            }
        }
    }
    let (health, reason) = match health(&host) {
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
    };
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

/// What stands for the type of devices that no label names.
pub const UNTYPED: &str = "unknown";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Node;

    fn host(name: &str, labels: &[(&str, &str)], resources: &[(&str, &str)]) -> NodeDetails {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let resources: BTreeMap<String, String> = map(resources);
        let node = Node {
            name: name.into(),
            labels: map(labels),
            allocatable: resources.clone(),
            schedulable: true,
            ..Node::default()
        };
        NodeDetails {
            node,
            capacity: resources.clone(),
            allocatable: resources,
            ..NodeDetails::default()
        }
    }

    fn pod(name: &str, node: &str, devices: &[(&str, u64)]) -> Consumer {
        let devices = Rc::new(
            devices
                .iter()
                .map(|(resource, count)| ((*resource).to_owned(), *count))
                .collect(),
        );
        Consumer {
            namespace: "ns".into(),
            name: name.into(),
            node: Some(node.into()),
            devices,
            asks_for_devices: true,
            ..Consumer::default()
        }
    }

    const A100: (&str, &str) = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");

    #[test]
    fn bound_pods_hold_and_waiting_ones_do_not() {
        let waiting = Consumer {
            node: None,
            ..pod("waiting", "a", &[("nvidia.com/gpu", 4)])
        };
        let pods = [
            pod("runs", "a", &[("nvidia.com/gpu", 3)]),
            waiting,
            pod("elsewhere", "b", &[("nvidia.com/gpu", 1)]),
        ];
        let inventory = Inventory::of(
            vec![host("a", &[A100], &[("nvidia.com/gpu", "8")])],
            Some(&pods.into_iter().collect()),
            &[],
        );
        let only = &inventory.hosts[0];
        assert_eq!(
            (only.gpus, only.gpus.free()),
            (
                Count {
                    total: 8,
                    used: Some(3)
                },
                Some(5)
            )
        );
        assert_eq!(
            (
                only.gpu_type().map(|kind| kind.to_string()).as_deref(),
                only.holders.len()
            ),
            (Some("a100-80g"), 1)
        );
    }

    #[test]
    fn what_may_not_be_seen_is_unknown_and_not_free() {
        let inventory = Inventory::of(
            vec![host("a", &[A100], &[("nvidia.com/gpu", "8")])],
            None,
            &[],
        );
        assert_eq!(
            (
                inventory.gpus().total,
                inventory.gpus().used,
                inventory.gpus().free()
            ),
            (8, None, None)
        );
        assert_eq!(inventory.hosts[0].cpu_used_milli, None);
    }

    #[test]
    fn slices_and_shares_are_never_whole_devices() {
        let hosts = vec![
            host(
                "mixed",
                &[A100],
                &[
                    ("nvidia.com/mig-1g.10gb", "7"),
                    ("nvidia.com/gpu", "7"),
                    ("cpu", "8"),
                ],
            ),
            host(
                "single",
                &[(
                    "nvidia.com/gpu.product",
                    "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
                )],
                &[("nvidia.com/gpu", "56")],
            ),
            host(
                "sliced",
                &[A100, ("nvidia.com/gpu.replicas", "4")],
                &[("nvidia.com/gpu", "32")],
            ),
            host("renamed", &[A100], &[("nvidia.com/gpu.shared", "16")]),
            host(
                "amd",
                &[("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM")],
                &[("amd.com/cpx_nps4", "64")],
            ),
        ];
        let pods = [
            pod("a", "mixed", &[("nvidia.com/mig-1g.10gb", 2)]),
            pod("b", "sliced", &[("nvidia.com/gpu", 3)]),
        ];
        let inventory = Inventory::of(hosts, Some(&pods.into_iter().collect()), &[]);
        let of = |name: &str| {
            inventory
                .hosts
                .iter()
                .find(|host| host.name() == name)
                .unwrap()
        };
        assert_eq!(
            inventory.gpus(),
            Count {
                total: 7,
                used: Some(0)
            },
            "only the whole ones of the mixed node"
        );
        assert_eq!(
            of("mixed").slices["mig-1g.10gb"],
            Count {
                total: 7,
                used: Some(2)
            }
        );
        assert_eq!(
            of("single").slices["mig-1g.10gb"],
            Count {
                total: 56,
                used: Some(0)
            }
        );
        assert_eq!(
            of("sliced").slices["gpu.shared"],
            Count {
                total: 32,
                used: Some(3)
            }
        );
        assert_eq!(of("renamed").slices["gpu.shared"].total, 16);
        assert_eq!(of("amd").slices["cpx_nps4"].total, 64);
    }

    #[test]
    fn devices_of_dynamic_allocation_count_like_others() {
        let device = |profile: Option<&str>, held: bool| Device {
            node: "a".into(),
            profile: profile.map(ToOwned::to_owned),
            driver: "gpu.nvidia.com".into(),
            taint: None,
            product: Some("NVIDIA H100 80GB HBM3".into()),
            held_by: held.then(|| vec![("ns".to_owned(), "p".to_owned())]),
            known: true,
        };
        let devices = [
            device(None, true),
            device(None, true),
            device(None, false),
            device(Some("1g.10gb"), false),
        ];
        let claims = Consumers::from_iter([pod("p", "a", &[])]);
        let inventory = Inventory::of(vec![host("a", &[], &[])], Some(&claims), &devices);
        let only = &inventory.hosts[0];
        assert_eq!(
            (
                only.gpus,
                only.gpu_type().map(|kind| kind.to_string()).as_deref()
            ),
            (
                Count {
                    total: 3,
                    used: Some(2)
                },
                Some("h100-80g")
            )
        );
        assert_eq!(
            only.slices["mig-1g.10gb"],
            Count {
                total: 1,
                used: Some(0)
            }
        );
        assert_eq!((only.holders.len(), only.holders[0].gpus), (1, GpuCount(2)));
        // A tainted device is none that is free; one that somebody has goes on counting.
        let tainted = |one: &Device| Device {
            taint: Some("example.com/xid".into()),
            ..one.clone()
        };
        let broken = [
            tainted(&devices[0]),
            devices[1].clone(),
            tainted(&devices[2]),
        ];
        let inventory = Inventory::of(vec![host("a", &[], &[])], Some(&claims), &broken);
        let only = &inventory.hosts[0];
        assert_eq!(
            only.gpus,
            Count {
                total: 2,
                used: Some(2)
            }
        );
        assert_eq!(
            (only.health, only.reason.as_deref()),
            (
                NodeHealth::Faulty,
                Some("2 of 3 devices tainted (example.com/xid)")
            )
        );
        // The driver serves `nvidia.com/gpu` by claims: the pod's own words do not count beside
        // them.
        let asks = [pod("p", "a", &[("nvidia.com/gpu", 2)])];
        let inventory = Inventory::of(
            vec![host("a", &[], &[])],
            Some(&asks.into_iter().collect()),
            &devices,
        );
        assert_eq!(
            (inventory.gpus().used, inventory.hosts[0].holders[0].gpus),
            (Some(2), GpuCount(2))
        );
        // Without the right to read claims nobody knows what is free.
        let unknown: Vec<Device> = devices
            .iter()
            .map(|device| Device {
                held_by: None,
                known: false,
                ..device.clone()
            })
            .collect();
        let inventory = Inventory::of(
            vec![host("a", &[], &[])],
            Some(&Consumers::default()),
            &unknown,
        );
        assert_eq!((inventory.gpus().total, inventory.gpus().used), (3, None));
    }
}
