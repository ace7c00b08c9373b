//! Builds workloads from owners and pods. A workload is a top-level owner with the objects below
//! it, and the GPUs that they request and hold.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::inventory::Inventory;
use super::node_usage::{Holder, NodeUsage};
use crate::model::facts::job_pod::PodPhase;
use crate::model::facts::work_pod::{PodSums, WorkPod};
use crate::model::facts::workload::{OwnerObject, Workload, WorkloadState};
use crate::model::values::natural;
use crate::model::values::units::GpuCount;

/// Owners and pods, linked by UID.
#[derive(Clone, Debug, Default)]
pub struct Forest {
    pub owners: BTreeMap<String, OwnerObject>,
    pub pods: Vec<Rc<WorkPod>>,
    /// Sums of the pods that are not in `pods`, by the UID of their owner.
    pub others: BTreeMap<Rc<str>, PodSums>,
}

/// The pods below one top-level owner, or a single pod without an owner.
#[derive(Default)]
struct OwnerGroup<'f> {
    top: Option<&'f OwnerObject>,
    pods: Vec<&'f Rc<WorkPod>>,
    others: PodSums,
    /// True if a pod or a template in the group requests or holds devices.
    is_wanted: bool,
}

/// An object with the objects that it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub children: Vec<Branch>,
}

/// Maximum length of an owner chain. Real chains are much shorter, so a longer one is a cycle.
const DEEPEST: usize = 16;

impl Forest {
    /// Follows owner references to the topmost owner that could be read.
    fn top<'f>(&'f self, parent: Option<&'f str>) -> Option<&'f OwnerObject> {
        let mut topmost = None;
        let mut next = parent;
        for _ in 0..DEEPEST {
            let Some(owner) = next.and_then(|uid| self.owners.get(uid)) else {
                break;
            };
            topmost = Some(owner);
            next = owner.parent.as_deref();
        }
        topmost
    }

    /// Builds all workloads that request or hold devices, in any phase, sorted by namespace and
    /// name.
    pub fn workloads(&self, inventory: &Inventory) -> Vec<Workload> {
        let holders: BTreeMap<(&str, &str), (&NodeUsage, &Holder)> = inventory
            .hosts
            .iter()
            .flat_map(|host| {
                host.holders
                    .iter()
                    .map(move |holder| ((&*holder.namespace, &*holder.pod), (host, holder)))
            })
            .collect();
        // Without the right to list the pods of all namespaces, holders are unknown. Use the
        // requests of the visible pods instead.
        let counted = !inventory.hosts.is_empty() && inventory.gpus().used.is_some();
        let products: BTreeMap<&str, &str> = inventory
            .hosts
            .iter()
            .map(|host| (host.name(), host.details.node.product()))
            .collect();
        let products = (!counted).then_some(&products);
        let groups = self.groups(|pod| holders.contains_key(&(&*pod.namespace, &*pod.name)));
        let mut children: BTreeMap<&str, Vec<&OwnerObject>> = BTreeMap::new();
        for owner in self.owners.values() {
            children
                .entry(owner.parent.as_deref().unwrap_or_default())
                .or_default()
                .push(owner);
        }
        let mut workloads: Vec<Workload> = groups
            .into_values()
            .filter(|group| group.is_wanted)
            .filter_map(|group| {
                let mut pods: Vec<Rc<WorkPod>> = group.pods.iter().copied().cloned().collect();
                let top = group
                    .top
                    .cloned()
                    .or_else(|| pods.first().map(|pod| pod_as_owner(pod)))?;
                pods.sort_by(|a, b| natural::compare(&a.name, &b.name));
                let template = template_gpus(&top, &children, DEEPEST);
                Some(workload(
                    top,
                    pods,
                    &group.others,
                    template,
                    &holders,
                    products,
                ))
            })
            .collect();
        workloads.sort_by(|a, b| {
            let [first, second] = [&a.top, &b.top]
                .map(|top| (natural::full_name(&top.namespace, &top.name), &top.uid));
            first.cmp(&second)
        });
        workloads
    }

    /// Groups pods by their top-level owner.
    fn groups(&self, holds: impl Fn(&WorkPod) -> bool) -> BTreeMap<&str, OwnerGroup<'_>> {
        let mut groups: BTreeMap<&str, OwnerGroup<'_>> = BTreeMap::new();
        for pod in &self.pods {
            let top = self.top(pod.parent.as_deref());
            let group = groups
                .entry(top.map_or(&*pod.uid, |top| &top.uid))
                .or_insert_with(|| OwnerGroup {
                    top,
                    ..OwnerGroup::default()
                });
            // A pod can hold devices through a claim without requesting an extended resource.
            group.is_wanted |= pod.gpus > GpuCount::ZERO || holds(pod);
            group.pods.push(pod);
        }
        for owner in self
            .owners
            .values()
            .filter(|owner| owner.gpus > GpuCount::ZERO)
        {
            let top = self.top(Some(&owner.uid)).unwrap_or(owner);
            let group = groups.entry(&top.uid).or_default();
            (group.top, group.is_wanted) = (Some(top), true);
        }
        for (parent, sums) in &self.others {
            // An owner without a group has no pods or templates with devices, so skip its pods.
            if let Some(group) = self
                .top(Some(parent))
                .and_then(|top| groups.get_mut(top.uid.as_str()))
            {
                group.others.merge(sums);
            }
        }
        groups
    }

    /// Builds the tree of the known objects below an object.
    pub fn branch(&self, top: &OwnerObject) -> Branch {
        self.branch_within(top, DEEPEST)
    }

    fn branch_within(&self, top: &OwnerObject, deepest: usize) -> Branch {
        let is_child = |parent: Option<&str>| parent == Some(top.uid.as_str());
        let owners = self
            .owners
            .values()
            .filter(|owner| is_child(owner.parent.as_deref()) && deepest > 0);
        let mut children: Vec<Branch> = owners
            .map(|owner| self.branch_within(owner, deepest - 1))
            .collect();
        children.extend(
            self.pods
                .iter()
                .filter(|pod| is_child(pod.parent.as_deref()))
                .map(|pod| Branch {
                    kind: "Pod".to_owned(),
                    namespace: pod.namespace.to_string(),
                    name: pod.name.to_string(),
                    uid: pod.uid.to_string(),
                    children: Vec::new(),
                }),
        );
        children.sort_by(|a, b| {
            let order = a.kind.cmp(&b.kind);
            order.then_with(|| natural::compare(&a.name, &b.name))
        });
        Branch {
            kind: top.kind.clone(),
            namespace: top.namespace.clone(),
            name: top.name.clone(),
            uid: top.uid.clone(),
            children,
        }
    }
}

/// Converts a pod without an owner to the top-level object of a workload.
fn pod_as_owner(pod: &WorkPod) -> OwnerObject {
    OwnerObject {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        created_at: pod.created_at,
        ..OwnerObject::default()
    }
}

fn workload(
    top: OwnerObject,
    pods: Vec<Rc<WorkPod>>,
    others: &PodSums,
    template: GpuCount,
    holders: &BTreeMap<(&str, &str), (&NodeUsage, &Holder)>,
    products: Option<&BTreeMap<&str, &str>>,
) -> Workload {
    let (mut held, mut slices) = (BTreeMap::new(), BTreeMap::new());
    for (host, holder) in pods
        .iter()
        .filter_map(|pod| holders.get(&(&*pod.namespace, &*pod.name)))
    {
        if holder.gpus > GpuCount::ZERO {
            *held
                .entry(host.details.node.product().to_owned())
                .or_default() += holder.gpus;
        }
        for (name, count) in &holder.slices {
            *slices.entry(name.clone()).or_default() += count;
        }
    }
    if let Some(products) = products {
        for pod in pods
            .iter()
            .filter(|pod| pod.gpus > GpuCount::ZERO && !pod.ended())
        {
            let Some(node) = &pod.node else { continue };
            let product = products.get(&**node).copied().unwrap_or("unknown");
            *held.entry(product.to_owned()).or_default() += pod.gpus;
        }
    }
    let living: GpuCount = pods
        .iter()
        .filter(|pod| !pod.ended())
        .map(|pod| pod.gpus)
        .sum();
    let held_now = held.values().copied().sum::<GpuCount>() + GpuCount(slices.values().sum());
    // Merge the pods with devices first, because their problems take precedence.
    let mut sums = PodSums::from_pods(
        pods.iter()
            .map(AsRef::as_ref)
            .filter(|pod| pod.gpus > GpuCount::ZERO),
    );
    sums.merge(&PodSums::from_pods(
        pods.iter()
            .map(AsRef::as_ref)
            .filter(|pod| pod.gpus == GpuCount::ZERO),
    ));
    sums.merge(others);
    let state = workload_state(&top, &sums);
    let over = matches!(state, WorkloadState::Completed | WorkloadState::Failed);
    // A completed or failed workload starts no further pods, so ignore its template.
    let requested = living
        .max(held_now)
        .max(if over { GpuCount::ZERO } else { template });
    Workload {
        top,
        pods,
        sums,
        state,
        requested,
        held,
        slices,
    }
}

/// Returns the state from the object's own status, or otherwise from its pods.
fn workload_state(top: &OwnerObject, sums: &PodSums) -> WorkloadState {
    if let Some(verdict) = top.verdict {
        return verdict;
    }
    let any = |phase: PodPhase| sums.has(phase);
    if sums.works {
        return WorkloadState::Running;
    }
    if any(PodPhase::Running) || any(PodPhase::Pending) || top.resting.is_some() {
        return WorkloadState::Pending;
    }
    match () {
        () if any(PodPhase::Unknown) => WorkloadState::Unknown,
        () if any(PodPhase::Failed) => WorkloadState::Failed,
        () if any(PodPhase::Succeeded) => WorkloadState::Completed,
        // No pods were created yet.
        () => WorkloadState::Pending,
    }
}

/// Sums the devices that the templates below an object request. The object's own template counts
/// only if no template below it requests devices.
fn template_gpus(
    top: &OwnerObject,
    children: &BTreeMap<&str, Vec<&OwnerObject>>,
    deepest: usize,
) -> GpuCount {
    if top.verdict.is_some() || deepest == 0 {
        return GpuCount::ZERO;
    }
    let below = children.get(top.uid.as_str()).into_iter().flatten();
    let below: GpuCount = below
        .map(|owner| template_gpus(owner, children, deepest - 1))
        .sum();
    if below > GpuCount::ZERO {
        below
    } else {
        top.gpus
    }
}

#[cfg(test)]
mod tests;
