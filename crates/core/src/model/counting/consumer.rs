//! Resources held by pods that have not terminated, per node.
//!
//! A cluster may have hundreds of thousands of pods, and most request no devices. To save memory,
//! only sums are stored for those. Other modules read nodes and parse pods.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use jiff::Timestamp;

/// A pod that has not terminated, with its requests. Values that many pods have in common are
/// stored once.
#[derive(Clone, Debug, Default)]
pub struct Consumer {
    pub namespace: Rc<str>,
    pub name: Rc<str>,
    pub node: Option<Rc<str>>,
    /// Start time of the pod's last container, or `None` if not all containers are running.
    pub runs_since: Option<Timestamp>,
    /// Name of the gpuctl job that the pod belongs to.
    pub job: Option<Rc<str>>,
    /// Number of units of each extended resource, computed as the scheduler does.
    pub devices: Rc<BTreeMap<String, u64>>,
    /// True if the pod requests devices, as extended resources, through claims, or as a member of a
    /// group.
    pub asks_for_devices: bool,
    /// Groups of pods that share a device with the pod (Run:ai and KAI).
    pub gpu_groups: Vec<Rc<str>>,
    pub requests: MachineRequests,
}

/// Requests for resources other than devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineRequests {
    pub cpu_milli: u64,
    pub memory_bytes: u64,
}

impl std::ops::AddAssign for MachineRequests {
    fn add_assign(&mut self, other: Self) {
        self.cpu_milli = self.cpu_milli.saturating_add(other.cpu_milli);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
    }
}

/// The pods in a cluster or a namespace that have not terminated.
#[derive(Clone, Debug, Default)]
pub struct Consumers {
    /// Pods that request devices, bound to a node or not.
    pub with_devices: Vec<Consumer>,
    /// Bound pods that request no devices, grouped by node.
    others: BTreeMap<Rc<str>, OthersOnNode>,
    pod_nodes: PodNodes,
}

/// Requests of the pods without devices on one node.
#[derive(Clone, Debug, Default)]
struct OthersOnNode {
    sum: MachineRequests,
    /// Requests by the namespace and name of the gpuctl job.
    jobs: BTreeMap<(Rc<str>, Rc<str>), MachineRequests>,
    /// The pods without a gpuctl job that request the most CPU and the most memory.
    most_cpu: Option<LargestPod>,
    most_memory: Option<LargestPod>,
}

#[derive(Clone, Debug)]
struct LargestPod {
    /// NAMESPACE/NAME of the pod.
    name: String,
    requests: MachineRequests,
}

impl Consumers {
    fn add(&mut self, pod: Consumer) {
        if let Some(node) = &pod.node {
            self.pod_nodes
                .insert(&pod.namespace, &pod.name, Rc::clone(node));
        }
        if pod.asks_for_devices {
            self.with_devices.push(pod);
        } else if let Some(node) = &pod.node {
            self.others.entry(Rc::clone(node)).or_default().add(&pod);
        }
    }

    /// Returns the summed requests of the pods without devices on a node.
    pub fn others_on(&self, node: &str) -> MachineRequests {
        self.others
            .get(node)
            .map(|others| others.sum)
            .unwrap_or_default()
    }

    pub(crate) fn pod_nodes(&self) -> &PodNodes {
        &self.pod_nodes
    }

    /// Groups the pods with devices by node, for callers that look up many nodes.
    pub(crate) fn by_node(&self) -> ConsumersByNode<'_> {
        let mut with_devices: BTreeMap<&str, Vec<&Consumer>> = BTreeMap::new();
        for pod in &self.with_devices {
            pod.node
                .as_deref()
                .into_iter()
                .for_each(|node| with_devices.entry(node).or_default().push(pod));
        }
        ConsumersByNode {
            with_devices,
            others: &self.others,
        }
    }
}

/// The pods of [`Consumers`], grouped by node.
pub(crate) struct ConsumersByNode<'c> {
    with_devices: BTreeMap<&'c str, Vec<&'c Consumer>>,
    others: &'c BTreeMap<Rc<str>, OthersOnNode>,
}

impl ConsumersByNode<'_> {
    /// Returns the largest consumer on a node as NAMESPACE/NAME, and its amount. Each gpuctl job
    /// counts as a whole, and other pods individually.
    pub(crate) fn largest_on(
        &self,
        node: &str,
        amount: impl Fn(&MachineRequests) -> u64,
    ) -> Option<(String, u64)> {
        let mut held: BTreeMap<String, MachineRequests> = BTreeMap::new();
        for pod in self.with_devices.get(node).into_iter().flatten() {
            let name = pod.job.as_ref().unwrap_or(&pod.name);
            *held.entry(format!("{}/{name}", pod.namespace)).or_default() += pod.requests;
        }
        if let Some(others) = self.others.get(node) {
            for ((namespace, job), requests) in &others.jobs {
                *held.entry(format!("{namespace}/{job}")).or_default() += *requests;
            }
        }
        let pods = self
            .others
            .get(node)
            .into_iter()
            .flat_map(|others| others.most_cpu.iter().chain(&others.most_memory));
        let by_name = held
            .into_iter()
            .chain(pods.map(|pod| (pod.name.clone(), pod.requests)));
        // Break ties by name, so that the result does not depend on the order of the list.
        let largest = by_name
            .map(|(name, requests)| (amount(&requests), name))
            .max();
        largest
            .filter(|(amount, _)| *amount > 0)
            .map(|(amount, name)| (name, amount))
    }
}

impl Extend<Consumer> for Consumers {
    fn extend<I: IntoIterator<Item = Consumer>>(&mut self, pods: I) {
        pods.into_iter().for_each(|pod| self.add(pod));
    }
}

impl FromIterator<Consumer> for Consumers {
    fn from_iter<I: IntoIterator<Item = Consumer>>(pods: I) -> Self {
        let mut consumers = Self::default();
        consumers.extend(pods);
        consumers
    }
}

impl OthersOnNode {
    fn add(&mut self, pod: &Consumer) {
        self.sum += pod.requests;
        if let Some(job) = &pod.job {
            *self
                .jobs
                .entry((Rc::clone(&pod.namespace), Rc::clone(job)))
                .or_default() += pod.requests;
            return;
        }
        LargestPod::replace(&mut self.most_cpu, pod, |requests| requests.cpu_milli);
        LargestPod::replace(&mut self.most_memory, pod, |requests| requests.memory_bytes);
    }
}

impl LargestPod {
    /// Replaces the largest pod if `pod` requests more. With equal requests, the last name wins, so
    /// that the result does not depend on the order of the list.
    fn replace(
        largest: &mut Option<Self>,
        pod: &Consumer,
        amount: impl Fn(&MachineRequests) -> u64,
    ) {
        let value = amount(&pod.requests);
        let current = largest
            .as_ref()
            .map_or(0, |current| amount(&current.requests));
        if value < current || value == 0 {
            return;
        }
        let name = format!("{}/{}", pod.namespace, pod.name);
        if value > current || largest.as_ref().is_some_and(|current| name > current.name) {
            *largest = Some(Self {
                name,
                requests: pod.requests,
            });
        }
    }
}

/// Nodes of the bound pods, by a hash of the pod's name, because the names would take eight times
/// as much memory. The hash has a random key, so that collisions cannot be crafted. In a million
/// pods, a collision has a probability of 3 in 100 million.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodNodes {
    pods: Rc<NumberedNodes>,
    key: RandomState,
}

/// Nodes by pod. Numbers for nodes take two thirds of the memory of pointers to their names.
#[derive(Clone, Debug, Default)]
struct NumberedNodes {
    by_pod: HashMap<u64, u32>,
    names: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u32>,
}

impl PodNodes {
    fn hash(&self, namespace: &str, name: &str) -> u64 {
        self.key.hash_one((namespace, name))
    }

    pub(crate) fn insert(&mut self, namespace: &str, name: &str, node: Rc<str>) {
        let hash = self.hash(namespace, name);
        let NumberedNodes {
            by_pod,
            names,
            numbers,
        } = Rc::make_mut(&mut self.pods);
        let next = u32::try_from(names.len()).expect("a cluster has fewer than 2^32 nodes");
        let number = *numbers.entry(node).or_insert_with_key(|node| {
            names.push(Rc::clone(node));
            next
        });
        by_pod.insert(hash, number);
    }

    /// Returns the node that a pod is bound to.
    pub(crate) fn node(&self, namespace: &str, name: &str) -> Option<&str> {
        let number = *self.pods.by_pod.get(&self.hash(namespace, name))?;
        self.pods.names.get(number as usize).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_without_devices_are_summed_per_node() {
        let pod =
            |name: &str, job: Option<&str>, cpu_milli, memory_bytes, gpus: Option<u64>| Consumer {
                namespace: "n".into(),
                name: name.into(),
                node: Some("a".into()),
                job: job.map(Into::into),
                devices: Rc::new(
                    gpus.map(|gpus| ("nvidia.com/gpu".to_owned(), gpus))
                        .into_iter()
                        .collect(),
                ),
                asks_for_devices: gpus.is_some(),
                requests: MachineRequests {
                    cpu_milli,
                    memory_bytes,
                },
                ..Consumer::default()
            };
        let pods = [
            pod("web", None, 700, 20, None),
            pod("cache", None, 100, 900, None),
            pod("train-0", Some("train"), 500, 300, Some(1)),
            pod("train-1", Some("train"), 250, 300, None),
            Consumer {
                node: None,
                ..pod("waits", None, 9_000, 9_000, None)
            },
            Consumer {
                asks_for_devices: true,
                ..pod("claims", None, 50, 5, None)
            },
        ];
        let consumers: Consumers = pods.into_iter().collect();
        assert_eq!(
            consumers
                .with_devices
                .iter()
                .map(|pod| &*pod.name)
                .collect::<Vec<_>>(),
            ["train-0", "claims"]
        );
        assert_eq!(
            consumers.others_on("a"),
            MachineRequests {
                cpu_milli: 700 + 100 + 250,
                memory_bytes: 20 + 900 + 300
            }
        );
        assert_eq!(consumers.others_on("b"), MachineRequests::default());
        // In milli-CPUs, the job requests 500 + 250, more than the largest pod's 700. Its memory,
        // 600, is less than 900.
        assert_eq!(
            consumers
                .by_node()
                .largest_on("a", |requests| requests.cpu_milli),
            Some(("n/train".to_owned(), 500 + 250))
        );
        assert_eq!(
            consumers
                .by_node()
                .largest_on("a", |requests| requests.memory_bytes),
            Some(("n/cache".to_owned(), 900))
        );
        assert_eq!(
            consumers
                .by_node()
                .largest_on("b", |requests| requests.cpu_milli),
            None
        );
        let nodes = ["web", "train-1", "claims", "waits", "gone"]
            .map(|name| consumers.pod_nodes().node("n", name));
        assert_eq!(nodes, [Some("a"), Some("a"), Some("a"), None, None]);
        assert_eq!(consumers.pod_nodes().node("other", "web"), None);
    }

    #[test]
    fn largest_pod_does_not_depend_on_order() {
        let pod = |name: &str, job: Option<&str>, cpu_milli, memory_bytes| Consumer {
            namespace: "n".into(),
            name: name.into(),
            node: Some("a".into()),
            job: job.map(Into::into),
            requests: MachineRequests {
                cpu_milli,
                memory_bytes,
            },
            ..Consumer::default()
        };
        // A pod that has the name of a job does not belong to that job.
        let mut pods = [
            pod("small", None, 10, 10),
            pod("cpu", None, 300, 20),
            pod("twin", None, 300, 5),
            pod("memory", None, 20, 800),
            pod("train-0", Some("train"), 250, 700),
            pod("train", None, 100, 50),
        ];
        for _ in 0..pods.len() {
            pods.rotate_left(1);
            let consumers: Consumers = pods.iter().cloned().collect();
            assert_eq!(
                consumers
                    .by_node()
                    .largest_on("a", |requests| requests.cpu_milli),
                Some(("n/twin".to_owned(), 300))
            );
            assert_eq!(
                consumers
                    .by_node()
                    .largest_on("a", |requests| requests.memory_bytes),
                Some(("n/memory".to_owned(), 800))
            );
            assert_eq!(
                consumers.others_on("a"),
                MachineRequests {
                    cpu_milli: 980,
                    memory_bytes: 1585
                }
            );
        }
    }
}
