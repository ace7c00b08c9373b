//! Computes the free resources of nodes, the jobs that hold the rest, and the waiting pods, all
//! from one list of the pods that have not terminated. Also computes the requests of a pod that
//! does not exist yet.

use std::collections::BTreeSet;

use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::Value;

use super::nodes::MACHINE;
use crate::transport::decode::{ListPage, PodSpec, WirePod};
use crate::{Failure, handles::InventoryApi, unless_forbidden};
use gpuctl_core::model::Node;
use gpuctl_core::model::contract::labels::{JOB, POOL_LABEL};
use gpuctl_core::model::counting::candidates::{ClusterCapacity, PlacedPod, WaitingPod};
use gpuctl_core::model::counting::capacity::Amounts;

/// Sums the requests that the scheduler counts for a pod. The result is empty if the pod cannot be
/// parsed.
pub fn requests(pod: &Value) -> Amounts {
    let text = pod["spec"].to_string();
    serde_json::from_str::<PodSpec<'_>>(&text)
        .map(|spec| spec.amounts())
        .unwrap_or_default()
}

/// The priority that a PriorityClass gives to pods.
#[derive(Clone, Debug)]
pub struct PriorityValue {
    pub name: String,
    pub value: i64,
    /// Whether pods without a class get it.
    pub is_default: bool,
}

impl InventoryApi<'_> {
    /// Reads a priority class. Returns `None` if it does not exist or the user cannot read it.
    pub async fn priority_class(self, name: &str) -> Result<Option<PriorityClass>, Failure> {
        let answer = self
            .0
            .find_in::<PriorityClass>("/apis/scheduling.k8s.io/v1/priorityclasses", name)
            .await;
        unless_forbidden(answer).map(Option::flatten)
    }

    /// Lists the values of all priority classes.
    pub async fn priority_values(self) -> Result<Vec<PriorityValue>, Failure> {
        let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
        let list: k8s_openapi::List<PriorityClass> = self.0.get(path).await?;
        let value = |class: PriorityClass| PriorityValue {
            name: class.metadata.name.unwrap_or_default(),
            value: i64::from(class.value),
            is_default: class.global_default == Some(true),
        };
        Ok(list.items.into_iter().map(value).collect())
    }

    /// Computes the free capacity of `nodes`, or `None` if the user cannot list all pods.
    pub async fn capacity(self, nodes: &[Node]) -> Result<Option<ClusterCapacity>, Failure> {
        let free = nodes
            .iter()
            .map(|node| (node.name.clone(), node.now()))
            .collect();
        let mut capacity = ClusterCapacity {
            free,
            ..ClusterCapacity::default()
        };
        // Terminated pods hold no resources, but a cluster keeps up to 12,500 of them by default
        // (`--terminated-pod-gc-threshold` of kube-controller-manager).
        let unfinished = [(
            "fieldSelector",
            "status.phase!=Succeeded,status.phase!=Failed",
        )];
        let result = self
            .0
            .list("/api/v1/pods", &unfinished, |page| {
                let page: ListPage<WirePod<'_>> = page.objects()?;
                page.items.iter().for_each(|pod| take(&mut capacity, pod));
                Ok(())
            })
            .await;
        match result {
            Ok(()) => Ok(Some(capacity)),
            Err(failure) if failure.is_forbidden() => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// Subtracts a pod's requests from its node's free capacity, or records the pod as waiting.
fn take(capacity: &mut ClusterCapacity, pod: &WirePod<'_>) {
    let job = pod.metadata.labels.get(JOB).map(String::as_str);
    let owner = job.or_else(|| pod.metadata.controller().map(|owner| owner.name.as_str()));
    let holder = format!(
        "{}/{}",
        pod.metadata.namespace,
        owner.unwrap_or(pod.metadata.name.as_ref())
    );
    if pod.spec.node_name.is_empty() {
        capacity.waiting.push(waiting_pod(pod, holder));
    } else {
        occupy(capacity, pod, holder);
    }
}

/// Converts a pod without a node.
fn waiting_pod(pod: &WirePod<'_>, holder: String) -> WaitingPod {
    let nominated =
        Some(pod.status.nominated_node_name.to_string()).filter(|node| !node.is_empty());
    let mut selector = pod.spec.node_selector.clone();
    // gpuctl's jobs select their pool with node affinity instead of `nodeSelector`.
    selector.extend(
        pod.metadata
            .labels
            .get(POOL_LABEL)
            .map(|pool| (POOL_LABEL.to_owned(), pool.clone())),
    );
    let claims = pod.spec.resource_claims.len() as u64;
    WaitingPod {
        holder,
        priority: pod.spec.priority,
        // Only gpuctl's claims have the device count in their names. Count every other claim as one
        // device.
        devices: pod.spec.devices().max(claims),
        nominated,
        selector,
    }
}

/// Subtracts a pod's requests from its node's free capacity.
fn occupy(capacity: &mut ClusterCapacity, pod: &WirePod<'_>, holder: String) {
    let node = pod.spec.node_name.as_ref();
    let Some(free) = capacity.free.get_mut(node) else {
        return;
    };
    let namespace = pod.metadata.namespace.as_ref();
    let claims = pod.spec.claim_names().into_iter();
    let claims: BTreeSet<(String, String)> =
        claims.map(|name| (namespace.to_owned(), name)).collect();
    if !claims.is_empty() {
        let on_node = capacity.claims.entry(node.to_owned()).or_default();
        on_node.extend(claims);
    }
    let devices = pod.spec.devices();
    let amounts = pod.spec.amounts();
    for (resource, amount) in &amounts {
        if let Some(available) = free.get_mut(resource) {
            // Static pods bypass the scheduler and can exceed the allocatable amount.
            *available = available.saturating_sub(*amount);
        }
    }
    if devices > 0 {
        *capacity
            .held
            .entry(node.to_owned())
            .or_default()
            .entry(holder.clone())
            .or_default() += devices;
    }
    // The scheduler cannot preempt a pod that is already terminating.
    if pod.metadata.deletion_timestamp.is_none() {
        capacity
            .placed
            .entry(node.to_owned())
            .or_default()
            .push(PlacedPod {
                holder: holder.clone(),
                priority: pod.spec.priority,
                devices,
                amounts: amounts.clone(),
                started_at: pod.status.start_time,
            });
    }
    let used = capacity
        .machine
        .entry(node.to_owned())
        .or_default()
        .entry(holder)
        .or_default();
    for (resource, amount) in amounts
        .into_iter()
        .filter(|(resource, _)| MACHINE.contains(&resource.as_str()))
    {
        *used.entry(resource).or_default() += amount;
    }
}

impl PodSpec<'_> {
    /// Returns the requests that the scheduler counts for this pod, in thousandths.
    fn amounts(&self) -> Amounts {
        let total = self.total();
        let extended = total
            .extended
            .into_iter()
            .map(|(resource, amount)| (resource, i128::from(amount) * 1000));
        let node_resources = MACHINE
            .into_iter()
            .map(|resource| (resource.to_owned(), i128::from(self.of_node(resource))));
        // Every pod also takes one unit of the node resource `pods`, which limits the number of
        // pods.
        let pod = ("pods".to_owned(), 1000);
        extended
            .chain(node_resources)
            .chain([pod])
            .filter(|(_, amount)| *amount > 0)
            .collect()
    }
}
