//! Finds the objects of a job except its pods: those that `describe` shows and `delete` removes,
//! and those that are still being deleted.

use futures::future::join_all;
use serde::Deserialize;
use serde_json::Value;

use super::owner::{OwnerKind, PodOwner};
use crate::transport::decode::{ContainerResources, ListPage, ObjectMetadata, TEMPLATE_HASH};
use crate::write::apply::Deletion;
use crate::{Failure, handles::JobsApi, unless_forbidden};
use gpuctl_core::model::Job;
use gpuctl_core::model::contract::labels::{JOB, MANAGED_BY, MANAGED_BY_US};

/// Kinds that a job may own, as (kind, group, collection, whether deleting the job keeps the
/// object).
const KINDS: [(&str, &str, &str, bool); 6] = [
    ("service", "/api/v1", "services", false),
    ("configmap", "/api/v1", "configmaps", false),
    ("claim", "/api/v1", "persistentvolumeclaims", true),
    (
        "autoscaler",
        "/apis/autoscaling/v2",
        "horizontalpodautoscalers",
        false,
    ),
    ("ingress", "/apis/networking.k8s.io/v1", "ingresses", false),
    (
        "networkpolicy",
        "/apis/networking.k8s.io/v1",
        "networkpolicies",
        false,
    ),
];

/// An object that belongs to a job.
#[derive(Clone, Debug)]
pub struct OwnedObject {
    kind: &'static str,
    name: String,
    uid: String,
    path: String,
    /// UIDs of the owners.
    owners: Vec<String>,
    /// Requested size of a claim, such as `100Gi`.
    size: Option<String>,
    /// Whether deleting the job keeps the object. True for claims, because they hold the user's
    /// files.
    pub kept: bool,
}

impl OwnedObject {
    /// Returns true if the object with this UID is listed as an owner. The garbage collector then
    /// deletes both objects.
    pub(crate) fn is_owned_by(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| owner == uid)
    }

    /// Returns true if the garbage collector deletes the object together with its owner.
    fn is_collected(&self) -> bool {
        !self.kept && !self.owners.is_empty()
    }

    /// Returns `collection/name`, as in URLs.
    pub fn address(&self) -> String {
        self.path
            .rsplitn(3, '/')
            .take(2)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
            .join("/")
    }

    /// Returns `kind/name`, followed by the size if the object is a claim.
    pub fn sized(&self) -> String {
        let size = self
            .size
            .as_ref()
            .map_or(String::new(), |size| format!(" ({size})"));
        format!("{}/{}{size}", self.kind, self.name)
    }

    /// Formats the object as `kind/name`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }
}

/// An object of a deleted job that still exists.
#[derive(Clone, Debug)]
pub struct PendingDeletion {
    pub uid: String,
    pub path: String,
    /// `kind/name`, followed by the finalizers that prevent the deletion.
    pub label: String,
}

#[derive(Deserialize)]
struct NamedObject<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
    #[serde(default)]
    spec: OwnedSpec,
}

/// The spec of a claim. Other kinds lack these fields and get the defaults.
#[derive(Deserialize, Default)]
#[serde(default)]
struct OwnedSpec {
    #[serde(deserialize_with = "lenient")]
    resources: ContainerResources,
}

fn lenient<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<ContainerResources, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

impl JobsApi<'_> {
    /// Lists the objects that have the labels of this job, except of kinds that the user cannot
    /// list.
    pub async fn belongings(self, namespace: &str, job: &str) -> Result<Vec<OwnedObject>, Failure> {
        let selector = format!("{MANAGED_BY}={MANAGED_BY_US},{JOB}={job}");
        let lists = KINDS.iter().map(|(kind, group, plural, kept)| {
            let selector = selector.as_str();
            async move {
                let path = format!("{group}/namespaces/{namespace}/{plural}");
                let mut objects = Vec::new();
                let result = self
                    .0
                    .list(&path, &[("labelSelector", selector)], |page| {
                        let page: ListPage<NamedObject<'_>> = page.objects()?;
                        objects.extend(page.items.iter().map(|object| {
                            OwnedObject {
                                kind,
                                name: object.metadata.name.to_string(),
                                uid: object.metadata.uid.to_string(),
                                path: format!("{path}/{}", object.metadata.name),
                                owners: object
                                    .metadata
                                    .owner_references
                                    .iter()
                                    .map(|owner| owner.uid.clone())
                                    .collect(),
                                size: object
                                    .spec
                                    .resources
                                    .requests
                                    .get("storage")
                                    .filter(|_| *kept)
                                    .cloned(),
                                kept: *kept,
                            }
                        }));
                        Ok(())
                    })
                    .await;
                match result {
                    // Bundles from earlier versions lack the kinds that those versions did not
                    // support.
                    Err(failure)
                        if !failure.is_forbidden()
                            && !matches!(failure, Failure::NotInBundle(_)) =>
                    {
                        Err(failure)
                    }
                    _ => Ok(objects),
                }
            }
        });
        let mut objects = Vec::new();
        for list in join_all(lists).await {
            objects.extend(list?);
        }
        Ok(objects)
    }

    /// Lists the objects that `delete` removes: those of `belongings`, and the Secret with the
    /// ranks' token. The Secret's name is fixed, so gpuctl needs no permission to list Secrets and
    /// does not read its content.
    pub async fn deletable(self, namespace: &str, job: &str) -> Result<Vec<OwnedObject>, Failure> {
        let mut objects = self.belongings(namespace, job).await?;
        let name = format!("{job}-supervisor");
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let secret = match self.0.writes().find_metadata(&path).await {
            // Bundles contain no Secrets.
            Err(Failure::NotInBundle(_)) => None,
            answer => unless_forbidden(answer)?.flatten(),
        };
        let Some(secret) = secret else {
            return Ok(objects);
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &secret["metadata"];
        if meta["labels"][MANAGED_BY] == MANAGED_BY_US && meta["labels"][JOB] == job {
            let owners = meta["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|owner| text(&owner["uid"]))
                .collect();
            objects.push(OwnedObject {
                kind: "secret",
                name,
                uid: text(&meta["uid"]),
                path,
                owners,
                size: None,
                kept: false,
            });
        }
        Ok(objects)
    }

    /// Returns `kind/name` of all objects of the job except its pods, starting with the owner if it
    /// still exists.
    pub async fn objects_of(self, job: &Job) -> Result<Vec<String>, Failure> {
        let belongings = self.belongings(&job.namespace, &job.name).await?;
        let owner = format!("{}/{}", OwnerKind::for_job(job).word(), job.name);
        let owner = Some(owner).filter(|_| !job.owner_is_gone);
        Ok(owner
            .into_iter()
            .chain(belongings.iter().map(OwnedObject::label))
            .collect())
    }

    pub async fn delete_belonging(self, belonging: &OwnedObject) -> Result<bool, Failure> {
        match self
            .0
            .writes()
            .delete_at(&belonging.path, Deletion::with_uid(&belonging.uid))
            .await
        {
            // The user may not delete the object, but the garbage collector will.
            Err(failure) if failure.is_forbidden() && belonging.is_collected() => Ok(false),
            other => other,
        }
    }

    /// Deletes the owner of the job's pods. The garbage collector then deletes the pods.
    pub async fn delete_owner(self, job: &Job) -> Result<bool, Failure> {
        let path = OwnerKind::for_job(job).path(&job.namespace, &job.name);
        self.0
            .writes()
            .delete_at(&path, Deletion::with_uid(&job.uid))
            .await
    }

    /// Returns the kind of an existing object with this name that could own pods, for a name
    /// without a gpuctl job.
    pub async fn foreign(
        self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<&'static str>, Failure> {
        for owner in OwnerKind::ALL {
            match self
                .0
                .find::<serde::de::IgnoredAny>(&owner.path(namespace, name))
                .await
            {
                Ok(None) => {}
                Ok(Some(_)) => return Ok(Some(owner.word())),
                Err(failure) if owner.is_optional() && failure.is_forbidden() => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(None)
    }

    /// Deletes the ReplicaSets of a deleted Deployment. Otherwise they replace pods that end until
    /// the garbage collector deletes them.
    pub async fn delete_replica_sets(self, job: &Job) -> Result<(), Failure> {
        let collection = format!("/apis/apps/v1/namespaces/{}/replicasets", job.namespace);
        let selector = format!("{MANAGED_BY}={MANAGED_BY_US},{JOB}={}", job.name);
        let mut replica_sets = Vec::new();
        self.0
            .list(&collection, &[("labelSelector", &selector)], |page| {
                let page: ListPage<NamedObject<'_>> = page.objects()?;
                let is_owned = |set: &&NamedObject<'_>| {
                    set.metadata
                        .owner_references
                        .iter()
                        .any(|owner| owner.uid == job.uid)
                };
                replica_sets.extend(
                    page.items
                        .iter()
                        .filter(is_owned)
                        .map(|set| (set.metadata.name.to_string(), set.metadata.uid.to_string())),
                );
                Ok(())
            })
            .await?;
        for (name, uid) in replica_sets {
            self.0
                .writes()
                .delete_at(&format!("{collection}/{name}"), Deletion::with_uid(&uid))
                .await?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct EndingObject<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
}

impl EndingObject<'_> {
    fn remainder(&self, kind: &str, collection: &str) -> PendingDeletion {
        let finalizers = self.metadata.finalizers.join(", ");
        let suffix = if finalizers.is_empty() {
            String::new()
        } else {
            format!(" (held by {finalizers})")
        };
        let path = format!("{collection}/{}", self.metadata.name);
        PendingDeletion {
            uid: self.metadata.uid.to_string(),
            path,
            label: format!("{kind}/{}{suffix}", self.metadata.name),
        }
    }
}

impl JobsApi<'_> {
    /// Lists the owner and pods of a deleted job that still exist. Pods of a Deployment are matched
    /// by the Deployment's name, so pods of a newer Deployment with the same name are included.
    pub async fn remains(self, job: &Job) -> Result<Vec<PendingDeletion>, Failure> {
        let (namespace, owner) = (job.namespace.as_str(), OwnerKind::for_job(job));
        let selector = format!("{MANAGED_BY}={MANAGED_BY_US},{JOB}={}", job.name);
        let pods_of = PodOwner::from_job(job);
        let mut remaining = Vec::new();
        for (kind, path) in [
            (owner.word(), owner.collection(Some(namespace))),
            ("pod", format!("/api/v1/namespaces/{namespace}/pods")),
        ] {
            self.0
                .list(&path, &[("labelSelector", &selector)], |page| {
                    let page: ListPage<EndingObject<'_>> = page.objects()?;
                    let is_owned = |object: &&EndingObject<'_>| {
                        object.metadata.uid == job.uid
                            || job.owner_is_gone
                                && job.pods.iter().any(|pod| pod.uid == object.metadata.uid)
                            || PodOwner::from_metadata(&object.metadata) == pods_of
                    };
                    remaining.extend(
                        page.items
                            .iter()
                            .filter(is_owned)
                            .map(|object| object.remainder(kind, &path)),
                    );
                    Ok(())
                })
                .await?;
        }
        Ok(remaining)
    }

    /// Lists the pods that have the labels of a job that does not exist, as (path, UID).
    pub async fn orphans(
        self,
        namespace: &str,
        job: &str,
    ) -> Result<Vec<(String, String)>, Failure> {
        let collection = format!("/api/v1/namespaces/{namespace}/pods");
        let mut pods = Vec::new();
        // Require a label that only the Job, Deployment and StatefulSet controllers set, to exclude
        // pods that a user created by hand.
        for creator in [
            "batch.kubernetes.io/controller-uid",
            TEMPLATE_HASH,
            "controller-revision-hash",
        ] {
            let selector = format!("{MANAGED_BY}={MANAGED_BY_US},{JOB}={job},{creator}");
            self.0
                .list(&collection, &[("labelSelector", &selector)], |page| {
                    let page: ListPage<NamedObject<'_>> = page.objects()?;
                    pods.extend(page.items.iter().map(|pod| {
                        (
                            format!("{collection}/{}", pod.metadata.name),
                            pod.metadata.uid.to_string(),
                        )
                    }));
                    Ok(())
                })
                .await?;
        }
        Ok(pods)
    }
}

#[cfg(test)]
mod tests;
