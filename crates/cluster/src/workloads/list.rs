//! Reads the owners and pods of a namespace or the cluster. Common kinds are listed, and objects of
//! custom kinds are found by following owner references (`custom_owners.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures::future::{join, join_all};
use serde::Deserialize;

use gpuctl_core::model::facts::gpu_group;
use gpuctl_core::model::facts::work_pod::{PodSums, WorkPod};
use gpuctl_core::model::facts::workload::OwnerObject;
use gpuctl_core::model::values::omissions;
use gpuctl_core::model::values::omissions::Omission;
use gpuctl_core::model::{Forest, GpuCount};

use super::custom_owners::{Reference, reference};
use super::wire_object::WireObject;
use crate::transport::decode::{ListPage, ObjectMetadata, PodSpec, PodStatus};
use crate::transport::list::Page;
use crate::transport::shared_texts::SharedTexts;
use crate::{Failure, InventorySnapshot, handles::WorkloadsApi};

/// Pods and their owners, and the kinds that could not be read.
#[derive(Clone)]
pub struct Owners {
    pub forest: Forest,
    /// Kinds that the user cannot list. Workloads of these kinds are missing unless they have pods.
    pub unreadable: Vec<String>,
    /// Set if the user cannot list all namespaces, so that only this one was read.
    pub narrowed_to: Option<String>,
}

/// The kinds to list, as (API version, plural, kind).
const LISTED: [(&str, &str, &str); 6] = [
    ("apps/v1", "replicasets", "ReplicaSet"),
    ("apps/v1", "deployments", "Deployment"),
    ("apps/v1", "statefulsets", "StatefulSet"),
    ("apps/v1", "daemonsets", "DaemonSet"),
    ("batch/v1", "jobs", "Job"),
    ("batch/v1", "cronjobs", "CronJob"),
];

#[derive(Deserialize)]
struct OwnedPod<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
    #[serde(borrow, default)]
    spec: PodSpec<'a>,
    #[serde(borrow, default)]
    status: PodStatus<'a>,
}

/// Pods and their owners, and the inventory.
#[derive(Clone)]
pub struct OwnersAndInventory {
    pub owners: Owners,
    /// The inventory, or the error if the user cannot list nodes.
    pub inventory: Result<InventorySnapshot, Failure>,
}

/// How to store pods that request no devices, which are the majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherPods {
    Named,
    /// Stores only the sum of their requests, for lists of workloads.
    Summed,
}

/// Pods collected from pages, and the owner references of those with devices.
struct OwnedPods {
    other_pods: OtherPods,
    pods: Vec<Rc<WorkPod>>,
    others: BTreeMap<Rc<str>, PodSums>,
    references: BTreeSet<Reference>,
    texts: SharedTexts,
}

impl OwnedPods {
    fn new(other_pods: OtherPods) -> Self {
        let (pods, others, references, texts) = Default::default();
        Self {
            other_pods,
            pods,
            others,
            references,
            texts,
        }
    }

    fn take(&mut self, page: Page<'_>) -> serde_json::Result<()> {
        let page: ListPage<OwnedPod<'_>> = page.objects()?;
        for pod in &page.items {
            // Custom owners need one request each, so only those of pods with devices are read.
            let is_grouped = pod
                .metadata
                .labels
                .keys()
                .any(|key| gpu_group::is_group(key));
            // A pod that only reserves a device for others is not a workload.
            if is_grouped && gpu_group::reserves(&pod.metadata.namespace) {
                continue;
            }
            let work_pod = pod.pod(&mut self.texts);
            if work_pod.gpus > GpuCount::ZERO || is_grouped {
                self.references.extend(reference(&pod.metadata));
            }
            match &work_pod.parent {
                _ if pod.spec.asks_for_devices() || is_grouped => self.pods.push(Rc::new(work_pod)),
                Some(_) if self.other_pods == OtherPods::Named => self.pods.push(Rc::new(work_pod)),
                Some(parent) => self
                    .others
                    .entry(Rc::clone(parent))
                    .or_default()
                    .add(&work_pod),
                // Skip pods without an owner and without devices, because they belong to no
                // workload.
                None => {}
            }
        }
        Ok(())
    }
}

/// The objects of one kind from [`LISTED`], with the references to their owners by the objects'
/// UIDs.
type ListedOwners = (
    &'static str,
    Result<(Vec<OwnerObject>, BTreeMap<String, Reference>), Failure>,
);

impl WorkloadsApi<'_> {
    /// Reads the owners and pods of `namespace`, or of all namespaces if it is `None`.
    pub async fn owners(
        self,
        namespace: Option<&str>,
        others: OtherPods,
    ) -> Result<Owners, Failure> {
        match self.owners_in(namespace, others).await {
            Err(failure) if namespace.is_none() && failure.is_forbidden() => {
                self.owners_at_home(others).await
            }
            other => other,
        }
    }

    /// Reads the owners and pods of the current namespace, for users who cannot list all pods.
    async fn owners_at_home(self, others: OtherPods) -> Result<Owners, Failure> {
        let namespace = self.0.namespace.clone();
        let owners = self.owners_in(Some(&namespace), others).await?;
        Ok(Owners {
            narrowed_to: Some(namespace),
            ..owners
        })
    }

    /// Reads owners and the inventory from one list of the pods of all namespaces.
    pub async fn snapshot(
        self,
        namespace: Option<&str>,
        others: OtherPods,
    ) -> Result<OwnersAndInventory, Failure> {
        let (owners, inventory) = if namespace.is_some() {
            let (owners, inventory) = join(
                self.owners(namespace, others),
                self.0.inventory().snapshot(),
            )
            .await;
            (owners?, inventory)
        } else {
            let mut pods = OwnedPods::new(others);
            let inventory = self
                .0
                .inventory()
                .snapshot_with(&[], |page| pods.take(page));
            let ((inventory, pod_list), lists) = join(inventory, self.listed_owners("")).await;
            let owners = match pod_list {
                Err(failure) if failure.is_forbidden() => self.owners_at_home(others).await?,
                other => {
                    other?;
                    self.owners_above(pods, lists).await?
                }
            };
            (owners, inventory)
        };
        match inventory {
            Err(failure) if !failure.is_forbidden() => Err(failure),
            inventory => Ok(OwnersAndInventory { owners, inventory }),
        }
    }

    async fn owners_in(
        self,
        namespace: Option<&str>,
        others: OtherPods,
    ) -> Result<Owners, Failure> {
        let scope = namespace.map_or_else(String::new, |name| format!("/namespaces/{name}"));
        let mut pods = OwnedPods::new(others);
        let listing = async {
            self.0
                .list(&format!("/api/v1{scope}/pods"), &[], |page| pods.take(page))
                .await
        };
        let (pod_list, lists) = join(listing, self.listed_owners(&scope)).await;
        pod_list?;
        self.owners_above(pods, lists).await
    }

    async fn listed_owners(self, scope: &str) -> Vec<ListedOwners> {
        let lists = LISTED.map(|(api, plural, kind)| async move {
            let mut objects = Vec::new();
            let mut parents = BTreeMap::new();
            let result = self
                .0
                .list(&format!("/apis/{api}{scope}/{plural}"), &[], |page| {
                    let page: ListPage<WireObject<'_>> = page.objects()?;
                    for object in &page.items {
                        let owner = object.owner(api, kind);
                        parents.extend(
                            reference(&object.metadata)
                                .map(|reference| (owner.uid.clone(), reference)),
                        );
                        objects.push(owner);
                    }
                    Ok(())
                })
                .await;
            (kind, result.map(|()| (objects, parents)))
        });
        join_all(lists).await
    }

    /// Combines pods with their owners, and reads custom owners.
    async fn owners_above(
        self,
        pods: OwnedPods,
        lists: Vec<ListedOwners>,
    ) -> Result<Owners, Failure> {
        let OwnedPods {
            pods,
            others,
            mut references,
            ..
        } = pods;
        let mut owners: BTreeMap<String, OwnerObject> = BTreeMap::new();
        let mut parent_of: BTreeMap<String, Reference> = BTreeMap::new();
        let mut unreadable = Vec::new();
        for (kind, list) in lists {
            match list {
                Ok((objects, parents)) => {
                    parent_of.extend(parents);
                    owners.extend(
                        objects
                            .into_iter()
                            .map(|object| (object.uid.clone(), object)),
                    );
                }
                Err(failure) if failure.is_forbidden() => unreadable.push(kind.to_owned()),
                Err(failure) => return Err(failure),
            }
        }
        // Follow only the owners of workloads with GPUs, because a cluster has many others.
        let mut pending: Vec<String> = owners
            .values()
            .filter(|owner| owner.gpus > GpuCount::ZERO)
            .map(|owner| owner.uid.clone())
            .collect();
        pending.extend(references.iter().map(|reference| reference.uid.clone()));
        let mut visited = BTreeSet::new();
        while let Some(uid) = pending.pop() {
            if visited.insert(uid.clone())
                && let Some(reference) = parent_of.get(&uid)
            {
                pending.push(reference.uid.clone());
                references.insert(reference.clone());
            }
        }
        self.follow_up(references, &mut owners).await;
        Ok(Owners {
            forest: Forest {
                owners,
                pods,
                others,
            },
            unreadable,
            narrowed_to: None,
        })
    }
}

impl OwnedPod<'_> {
    fn pod(&self, texts: &mut SharedTexts) -> WorkPod {
        let ends = self
            .status
            .container_statuses
            .iter()
            .filter_map(|status| status.state.terminated.as_ref()?.finished_at);
        let node = Some(&*self.spec.node_name).filter(|node| !node.is_empty());
        let phase = self.status.phase();
        if !phase.has_ended() && self.spec.is_absurd() {
            omissions::note(
                Omission::AbsurdRequest,
                format!("{}/{}", self.metadata.namespace, self.metadata.name),
            );
        }
        WorkPod {
            namespace: texts.intern(&self.metadata.namespace),
            name: self.metadata.name.as_ref().into(),
            uid: self.metadata.uid.as_ref().into(),
            parent: reference(&self.metadata).map(|reference| texts.intern(&reference.uid)),
            node: node.map(|node| texts.intern(node)),
            phase,
            gpus: GpuCount(self.spec.devices()),
            container: texts.intern(self.spec.main_container()),
            created_at: self.metadata.creation_timestamp,
            started_at: self.status.started_at(),
            ended_at: ends.max(),
            trouble: self.status.trouble().map(|trouble| texts.intern(&trouble)),
        }
    }
}
