//! Workloads: the owners at the top of what requests GPUs, through whatever chain of owners, with what stands below them.
//! How owners are read from the cluster is not known here.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::inventory::{HostUse, Inventory};
use super::job::PodPhase;
use super::reading::PodKey;

/// An object that owns others, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerObject {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The UID of its own owner.
    pub parent: Option<String>,
    pub created_at: Option<Timestamp>,
    /// When the object says that it began and ended.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Devices that its template asks for, in all.
    pub gpus: u64,
    /// What the object itself says of its end.
    pub verdict: Option<Standing>,
    /// Why it has no pods: `Suspended`, `ScaledToZero`.
    pub resting: Option<&'static str>,
}

/// A pod as a workload needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkPod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub parent: Option<String>,
    pub node: Option<String>,
    pub phase: PodPhase,
    /// Devices that it asks for.
    pub gpus: u64,
    /// The container that asks for them, else its first.
    pub container: String,
    pub created_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl WorkPod {
    #[must_use]
    pub fn ended(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    #[must_use]
    pub fn key(&self) -> PodKey {
        (self.namespace.clone(), self.name.clone())
    }
}

/// The workloads document's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Running,
    Completed,
    Failed,
    Pending,
    Unknown,
}

impl Standing {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::Pending => "Pending",
            Self::Unknown => "Unknown",
        }
    }

    /// The document's color for it.
    #[must_use]
    pub fn color(self) -> &'static str {
        match self {
            Self::Running | Self::Completed => "green",
            Self::Failed => "red",
            Self::Pending => "yellow",
            Self::Unknown => "gray",
        }
    }
}

/// A workload with its pods.
#[derive(Clone, Debug)]
pub struct Workload {
    pub top: OwnerObject,
    /// All pods below it, whether they ask for devices or not, by name.
    pub pods: Vec<WorkPod>,
    pub standing: Standing,
    /// Devices that its living pods ask for, or its template where it has none.
    pub requested: u64,
    /// Whole devices that it holds, by the product label of their nodes.
    pub held: BTreeMap<String, u64>,
    /// Slices that it holds.
    pub slices: BTreeMap<String, u64>,
}

impl Workload {
    /// Whole devices that it holds.
    #[must_use]
    pub fn gpus_held(&self) -> u64 {
        self.held.values().sum()
    }

    /// When its first pod began; the object's own word where no pod is left to tell.
    #[must_use]
    pub fn started_at(&self) -> Option<Timestamp> {
        let pods = self.pods.iter().filter_map(|pod| pod.started_at).min();
        pods.into_iter().chain(self.top.started_at).min().or(self.top.created_at)
    }

    /// When it ended; `None` while it goes on, or where nobody wrote it down.
    #[must_use]
    pub fn ended_at(&self) -> Option<Timestamp> {
        matches!(self.standing, Standing::Completed | Standing::Failed)
            .then(|| self.top.ended_at.or_else(|| self.pods.iter().filter_map(|pod| pod.ended_at).max()))
            .flatten()
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.standing, Standing::Completed | Standing::Failed)
    }
}

/// Owners and pods by UID.
#[derive(Clone, Debug, Default)]
pub struct Forest {
    pub owners: BTreeMap<String, OwnerObject>,
    pub pods: Vec<WorkPod>,
}

/// An object with what it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub children: Vec<Branch>,
}

/// Chains of owners are short; a longer one goes in a circle.
const DEEPEST: usize = 16;

impl Forest {
    /// The last owner that is known on the way up.
    fn top<'f>(&'f self, parent: Option<&'f str>) -> Option<&'f OwnerObject> {
        let mut found = None;
        let mut next = parent;
        for _ in 0..DEEPEST {
            let Some(owner) = next.and_then(|uid| self.owners.get(uid)) else { break };
            found = Some(owner);
            next = owner.parent.as_deref();
        }
        found
    }

    /// Everything that requests devices, in any phase, by namespace and name.
    #[must_use]
    pub fn workloads(&self, inventory: &Inventory) -> Vec<Workload> {
        let holders: BTreeMap<(&str, &str), (&HostUse, &super::Holder)> = inventory
            .hosts
            .iter()
            .flat_map(|host| {
                host.holders.iter().map(move |holder| ((holder.namespace.as_str(), holder.pod.as_str()), (host, holder)))
            })
            .collect();
        let mut pods: BTreeMap<String, Vec<&WorkPod>> = BTreeMap::new();
        let mut tops: BTreeMap<String, OwnerObject> = BTreeMap::new();
        let mut wanted: BTreeSet<String> = BTreeSet::new();
        for pod in &self.pods {
            let top = self.top(pod.parent.as_deref()).cloned().unwrap_or_else(|| alone(pod));
            if pod.gpus > 0 || holders.contains_key(&(pod.namespace.as_str(), pod.name.as_str())) {
                wanted.insert(top.uid.clone());
            }
            pods.entry(top.uid.clone()).or_default().push(pod);
            tops.entry(top.uid.clone()).or_insert(top);
        }
        let mut templates: BTreeMap<String, u64> = BTreeMap::new();
        for owner in self.owners.values().filter(|owner| owner.gpus > 0) {
            let top = self.top(Some(&owner.uid)).unwrap_or(owner);
            wanted.insert(top.uid.clone());
            let most = templates.entry(top.uid.clone()).or_default();
            *most = (*most).max(owner.gpus);
            tops.entry(top.uid.clone()).or_insert_with(|| top.clone());
        }
        let mut found: Vec<Workload> = tops
            .into_iter()
            .filter(|(uid, _)| wanted.contains(uid))
            .map(|(uid, top)| {
                let mut own: Vec<WorkPod> = pods.remove(&uid).unwrap_or_default().into_iter().cloned().collect();
                own.sort_by(|a, b| a.name.cmp(&b.name));
                let template = templates.get(&uid).copied().unwrap_or(0);
                workload(top, own, template, &holders)
            })
            .collect();
        found.sort_by(|a, b| {
            let key = |workload: &Workload| (workload.top.namespace.clone(), workload.top.name.clone(), workload.top.uid.clone());
            key(a).cmp(&key(b))
        });
        found
    }

    /// An object with all that is known below it.
    #[must_use]
    pub fn branch(&self, top: &OwnerObject) -> Branch {
        self.branch_within(top, DEEPEST)
    }

    fn branch_within(&self, top: &OwnerObject, deepest: usize) -> Branch {
        let is_child = |parent: &Option<String>| parent.as_deref() == Some(top.uid.as_str());
        let owners = self.owners.values().filter(|owner| is_child(&owner.parent) && deepest > 0);
        let mut children: Vec<Branch> = owners.map(|owner| self.branch_within(owner, deepest - 1)).collect();
        children.extend(self.pods.iter().filter(|pod| is_child(&pod.parent)).map(|pod| Branch {
            kind: "Pod".to_owned(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            children: Vec::new(),
        }));
        children.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
        Branch {
            kind: top.kind.clone(),
            namespace: top.namespace.clone(),
            name: top.name.clone(),
            uid: top.uid.clone(),
            children,
        }
    }
}

/// A pod that nobody owns is its own workload.
fn alone(pod: &WorkPod) -> OwnerObject {
    OwnerObject {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        created_at: pod.created_at,
        ..OwnerObject::default()
    }
}

fn workload(
    top: OwnerObject,
    pods: Vec<WorkPod>,
    template: u64,
    holders: &BTreeMap<(&str, &str), (&HostUse, &super::Holder)>,
) -> Workload {
    let (mut held, mut slices) = (BTreeMap::new(), BTreeMap::new());
    for (host, holder) in pods.iter().filter_map(|pod| holders.get(&(pod.namespace.as_str(), pod.name.as_str()))) {
        if holder.gpus > 0 {
            *held.entry(host.host.node.product().to_owned()).or_default() += holder.gpus;
        }
        for (name, count) in &holder.slices {
            *slices.entry(name.clone()).or_default() += count;
        }
    }
    let living: u64 = pods.iter().filter(|pod| !pod.ended()).map(|pod| pod.gpus).sum();
    let held_now = held.values().sum::<u64>() + slices.values().sum::<u64>();
    let standing = standing(&top, &pods);
    let over = matches!(standing, Standing::Completed | Standing::Failed);
    let requested = living.max(held_now).max(if over { 0 } else { template });
    Workload { standing, requested, held, slices, pods, top }
}

/// What the object says of its own end counts; else what its pods do.
fn standing(top: &OwnerObject, pods: &[WorkPod]) -> Standing {
    if let Some(verdict) = top.verdict {
        return verdict;
    }
    let any = |phase: PodPhase| pods.iter().any(|pod| pod.phase == phase);
    if any(PodPhase::Running) {
        return Standing::Running;
    }
    if any(PodPhase::Pending) || top.resting.is_some() {
        return Standing::Pending;
    }
    match () {
        () if any(PodPhase::Unknown) => Standing::Unknown,
        () if any(PodPhase::Failed) => Standing::Failed,
        () if any(PodPhase::Succeeded) => Standing::Completed,
        // An object that has no pods yet.
        () => Standing::Pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(kind: &str, uid: &str, parent: Option<&str>) -> (String, OwnerObject) {
        let object = OwnerObject {
            kind: kind.into(),
            namespace: "ns".into(),
            name: format!("{uid}-name"),
            uid: uid.into(),
            parent: parent.map(ToOwned::to_owned),
            ..OwnerObject::default()
        };
        (uid.to_owned(), object)
    }

    fn pod(name: &str, parent: Option<&str>, gpus: u64, phase: PodPhase) -> WorkPod {
        WorkPod {
            namespace: "ns".into(),
            name: name.into(),
            uid: name.into(),
            parent: parent.map(ToOwned::to_owned),
            gpus,
            phase,
            ..WorkPod::default()
        }
    }

    #[test]
    fn the_top_of_any_chain_is_the_workload() {
        let forest = Forest {
            owners: [owner("RayJob", "job", None), owner("RayCluster", "cluster", Some("job")), owner("Deployment", "web", None)]
                .into(),
            pods: vec![
                pod("head", Some("cluster"), 0, PodPhase::Running),
                pod("worker", Some("cluster"), 4, PodPhase::Pending),
                pod("orphan", Some("gone"), 1, PodPhase::Failed),
                pod("cpu", Some("web"), 0, PodPhase::Running),
            ],
        };
        let found = forest.workloads(&Inventory::default());
        let told: Vec<_> = found.iter().map(|one| (one.top.kind.as_str(), one.requested, one.standing, one.pods.len())).collect();
        assert_eq!(told, [("RayJob", 4, Standing::Running, 2), ("Pod", 0, Standing::Failed, 1)]);
        let tree = forest.branch(&found[0].top);
        assert_eq!((tree.children[0].kind.as_str(), tree.children[0].children.len()), ("RayCluster", 2));
    }

    #[test]
    fn an_owner_without_pods_is_a_workload_by_its_template() {
        let mut paused = owner("Job", "paused", None);
        (paused.1.gpus, paused.1.resting) = (8, Some("Suspended"));
        let mut ended = owner("Job", "ended", None);
        (ended.1.gpus, ended.1.verdict) = (8, Some(Standing::Completed));
        let forest = Forest { owners: [paused, ended].into(), pods: Vec::new() };
        let found = forest.workloads(&Inventory::default());
        let told: Vec<_> = found.iter().map(|one| (one.standing, one.requested, one.gpus_held())).collect();
        assert_eq!(told, [(Standing::Completed, 0, 0), (Standing::Pending, 8, 0)]);
    }

    #[test]
    fn a_circle_of_owners_ends() {
        let forest = Forest {
            owners: [owner("A", "a", Some("b")), owner("B", "b", Some("a"))].into(),
            pods: vec![pod("p", Some("a"), 1, PodPhase::Running)],
        };
        assert_eq!(forest.workloads(&Inventory::default()).len(), 1);
        assert!(!forest.branch(&forest.owners["a"]).children.is_empty());
    }
}
