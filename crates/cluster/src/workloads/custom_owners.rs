//! Follows owner references to objects of custom kinds, whose owners are not listed. Finds the
//! kinds by discovery and reads the objects one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{self, StreamExt};
use serde_json::Value;

use super::kinds::{may_own, root_of};
use crate::handles::WorkloadsApi;
use crate::transport::decode::ObjectMetadata;
use crate::transport::path::is_segment;
use gpuctl_core::model::facts::workload::{OwnerObject, WorkloadState};
use gpuctl_core::model::values::omissions;
use gpuctl_core::model::values::omissions::Omission;

/// Maximum number of owners read concurrently.
const AT_ONCE: usize = 16;
/// Maximum number of levels of owners to follow.
const HIGHEST: usize = 8;
/// Time limit for reading the custom owners of a list. A hanging aggregated API server must not
/// block the list.
const PATIENCE: Duration = Duration::from_secs(4);

/// A reference to an owner that has not been read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Reference {
    fn without_details(&self) -> OwnerObject {
        let Self {
            api_version,
            kind,
            namespace,
            name,
            uid,
        } = self.clone();
        OwnerObject {
            api_version,
            kind,
            namespace,
            name,
            uid,
            ..OwnerObject::default()
        }
    }
}

impl WorkloadsApi<'_> {
    /// Reads the owners that were not listed, and their owners, within `PATIENCE`. An owner that
    /// cannot be read is shown as its reference describes it.
    pub(crate) async fn follow_up(
        self,
        references: BTreeSet<Reference>,
        owners: &mut BTreeMap<String, OwnerObject>,
    ) {
        let mut pending = references;
        let reading = self.follow_all(&mut pending, owners);
        if tokio::time::timeout(PATIENCE, reading).await.is_err() {
            for reference in pending
                .iter()
                .filter(|reference| !owners.contains_key(&reference.uid))
            {
                omissions::note(
                    Omission::UnreadOwner,
                    format!("{}/{}", reference.namespace, reference.name),
                );
            }
        }
        for reference in pending {
            owners
                .entry(reference.uid.clone())
                .or_insert_with(|| reference.without_details());
        }
    }

    /// Reads owners level by level until `pending` is empty.
    async fn follow_all(
        self,
        pending: &mut BTreeSet<Reference>,
        owners: &mut BTreeMap<String, OwnerObject>,
    ) {
        let mut plurals: BTreeMap<(String, String), Option<String>> = BTreeMap::new();
        for _ in 0..HIGHEST {
            pending.retain(|reference| !owners.contains_key(&reference.uid));
            if pending.is_empty() {
                return;
            }
            self.find_plurals(pending, &mut plurals).await;
            let requested = pending.clone();
            let lookups = requested.iter().map(|reference| {
                let kind = (reference.api_version.clone(), reference.kind.clone());
                let plural = plurals.get(&kind).cloned().flatten();
                async move { self.object(reference, plural.as_deref()).await }
            });
            let mut lookups = stream::iter(lookups).buffer_unordered(AT_ONCE);
            while let Some((owner, parent)) = lookups.next().await {
                pending.retain(|reference| reference.uid != owner.uid);
                // Record the parent at once, because the timeout can drop this future at any await.
                pending.extend(parent);
                owners.insert(owner.uid.clone(), owner);
            }
        }
    }

    /// Looks up the plurals of kinds that are not cached.
    async fn find_plurals(
        self,
        pending: &BTreeSet<Reference>,
        plurals: &mut BTreeMap<(String, String), Option<String>>,
    ) {
        let mut unknown: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for Reference {
            api_version, kind, ..
        } in pending
        {
            if !plurals.contains_key(&(api_version.clone(), kind.clone())) {
                unknown.entry(api_version).or_default().insert(kind);
            }
        }
        let lookups = unknown.into_iter().map(|(version, kinds)| async move {
            let served = self.kinds_of(version, &kinds).await;
            // Record kinds that the cluster does not serve, so that they are not requested again.
            let missing = kinds
                .into_iter()
                .filter(|kind| !served.contains_key(*kind))
                .map(|kind| (kind.to_owned(), None));
            (version, missing.collect::<Vec<_>>(), served)
        });
        for (version, missing, served) in join_all(lookups).await {
            plurals.extend(
                missing
                    .into_iter()
                    .chain(served)
                    .map(|(kind, plural)| ((version.to_owned(), kind), plural)),
            );
        }
    }

    /// Reads an object. Returns `None` if it cannot be read, or if another object has its name now.
    async fn custom(self, owner: &OwnerObject, plural: &str) -> Option<Value> {
        let OwnerObject {
            api_version,
            namespace,
            name,
            uid,
            ..
        } = owner;
        if !is_segment(namespace) {
            return None;
        }
        let collection = format!(
            "{}/{api_version}/namespaces/{namespace}/{plural}",
            root_of(api_version)
        );
        let object = self
            .0
            .find_in::<Value>(&collection, name)
            .await
            .ok()
            .flatten();
        object.filter(|object| object["metadata"]["uid"] == **uid)
    }

    /// Reads one custom object within `PATIENCE`, or returns `None` if it cannot be read.
    pub(crate) async fn owner_object(self, owner: &OwnerObject) -> Option<Value> {
        let reading = async {
            let kinds = self
                .kinds_of(&owner.api_version, &BTreeSet::from([owner.kind.as_str()]))
                .await;
            self.custom(owner, kinds.get(&owner.kind)?.as_deref()?)
                .await
        };
        let result = tokio::time::timeout(PATIENCE, reading).await;
        if result.is_err() {
            omissions::note(
                Omission::UnreadOwner,
                format!("{}/{}", owner.namespace, owner.name),
            );
        }
        result.ok().flatten()
    }

    /// Reads an owner and the reference to its own owner.
    async fn object(
        self,
        reference: &Reference,
        plural: Option<&str>,
    ) -> (OwnerObject, Option<Reference>) {
        let namespace = &reference.namespace;
        let placeholder = || reference.without_details();
        let Some(plural) = plural else {
            return (placeholder(), None);
        };
        let Some(object) = self.custom(&placeholder(), plural).await else {
            return (placeholder(), None);
        };
        let parent = object["metadata"]["ownerReferences"]
            .as_array()
            .and_then(|owners| {
                let owner = owners
                    .iter()
                    .find(|owner| owner["controller"] == true)
                    .or_else(|| owners.first())?;
                let text = |key: &str| owner[key].as_str().map(ToOwned::to_owned);
                let may_follow = may_own(
                    owner["apiVersion"].as_str()?,
                    owner["kind"].as_str()?,
                    owner["name"].as_str()?,
                );
                may_follow.then_some(())?;
                Some(Reference {
                    api_version: text("apiVersion")?,
                    kind: text("kind")?,
                    namespace: namespace.clone(),
                    name: text("name")?,
                    uid: text("uid")?,
                })
            });
        let time = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .and_then(|text| text.parse().ok())
        };
        let owner = OwnerObject {
            parent: parent.as_ref().map(|parent| parent.uid.clone()),
            created_at: time("/metadata/creationTimestamp"),
            started_at: time("/status/startTime"),
            ended_at: time("/status/completionTime").or_else(|| time("/status/finishedAt")),
            verdict: verdict(&object["status"]),
            ..placeholder()
        };
        (owner, parent)
    }
}

/// Reads whether a custom object has ended, from its conditions or from the fields that kinds use
/// for a phase.
fn verdict(status: &Value) -> Option<WorkloadState> {
    let standing_of = |text: &str| match text.to_ascii_lowercase().as_str() {
        "succeeded" | "complete" | "completed" | "finished" => Some(WorkloadState::Completed),
        "failed" | "error" | "aborted" => Some(WorkloadState::Failed),
        _ => None,
    };
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let true_conditions = conditions
        .filter(|condition| condition["status"] == "True")
        .filter_map(|condition| condition["type"].as_str());
    let phases = ["/phase", "/state/phase", "/jobStatus"]
        .iter()
        .filter_map(|pointer| status.pointer(pointer)?.as_str());
    true_conditions.chain(phases).find_map(standing_of)
}

/// Returns a reference to the object's controller if its kind can own workloads. Static pods are
/// owned by their node, which is not a workload. A reference can contain any text.
pub(crate) fn reference(metadata: &ObjectMetadata<'_>) -> Option<Reference> {
    let owner = metadata.controller()?;
    may_own(&owner.api_version, &owner.kind, &owner.name).then(|| Reference {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        namespace: metadata.namespace.to_string(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    })
}
