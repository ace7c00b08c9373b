//! The objects of a job besides its pods: what describe names and delete takes away.

use futures::future::join_all;
use serde::Deserialize;

use crate::model::Job;
use crate::render::{JOB, MANAGED_BY, MANAGED_BY_US};

use super::apply::Deletion;
use super::decode::{Metadata, Owner, Page};
use super::{Connection, Failure, Wanted};

/// Kinds that a job may own: (kind, path of the collection, kept when the job is deleted).
const KINDS: [(&str, &str, bool); 3] =
    [("service", "services", false), ("configmap", "configmaps", false), ("claim", "persistentvolumeclaims", true)];

/// One object of a job.
#[derive(Clone, Debug)]
pub struct Belonging {
    kind: &'static str,
    name: String,
    uid: String,
    path: String,
    /// A claim: files that nobody wants to lose by deleting a job.
    pub kept: bool,
}

impl Belonging {
    /// `kind/name`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

impl Connection {
    /// The objects labelled as this job's. Kinds that the user may not list are left out.
    pub async fn belongings(&self, namespace: &str, job: &str) -> Result<Vec<Belonging>, Failure> {
        let selector = format!("{MANAGED_BY}={MANAGED_BY_US},{JOB}={job}");
        let lists = KINDS.iter().map(|(kind, plural, kept)| {
            let selector = selector.as_str();
            async move {
                let path = format!("/api/v1/namespaces/{namespace}/{plural}");
                let mut found = Vec::new();
                let listed = self
                    .list(&path, &[("labelSelector", selector)], |page| {
                        let page: Page<Named<'_>> = serde_json::from_slice(page)?;
                        found.extend(page.items.iter().map(|object| Belonging {
                            kind,
                            name: object.metadata.name.to_string(),
                            uid: object.metadata.uid.to_string(),
                            path: format!("{path}/{}", object.metadata.name),
                            kept: *kept,
                        }));
                        Ok(())
                    })
                    .await;
                match listed {
                    Err(failure) if !failure.is_forbidden() => Err(failure),
                    _ => Ok(found),
                }
            }
        });
        let mut all = Vec::new();
        for list in join_all(lists).await {
            all.extend(list?);
        }
        Ok(all)
    }

    /// `kind/name` of everything of the job but its pods, the owner first.
    pub async fn objects_of(&self, job: &Job) -> Result<Vec<String>, Failure> {
        let rest = self.belongings(&job.namespace, &job.name).await?;
        Ok([format!("job/{}", job.name)].into_iter().chain(rest.iter().map(Belonging::label)).collect())
    }

    pub async fn delete_belonging(&self, belonging: &Belonging) -> Result<bool, Failure> {
        self.delete_at(&belonging.path, Deletion { uid: Some(&belonging.uid), force: false }).await
    }
}

#[derive(Deserialize)]
struct Ending<'a> {
    #[serde(borrow)]
    metadata: EndingMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EndingMetadata<'a> {
    #[serde(borrow)]
    name: std::borrow::Cow<'a, str>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    owner_references: Vec<Owner>,
    #[serde(default)]
    uid: String,
}

impl Connection {
    /// What is left of the deleted job with this UID: the owner and its pods, with what holds them. A namesake made since
    /// then does not count.
    pub async fn remains(&self, wanted: &Wanted, uid: &str) -> Result<Vec<String>, Failure> {
        let namespace = wanted.namespace.as_deref().unwrap_or(&self.namespace);
        let selector = format!("{MANAGED_BY}={MANAGED_BY_US},{JOB}={}", wanted.name.as_deref().unwrap_or_default());
        let mut left = Vec::new();
        for (kind, path) in [
            ("job", format!("/apis/batch/v1/namespaces/{namespace}/jobs")),
            ("pod", format!("/api/v1/namespaces/{namespace}/pods")),
        ] {
            self.list(&path, &[("labelSelector", &selector)], |page| {
                let page: Page<Ending<'_>> = serde_json::from_slice(page)?;
                let ours = |object: &&Ending<'_>| {
                    object.metadata.uid == uid || object.metadata.owner_references.iter().any(|owner| owner.uid == uid)
                };
                left.extend(page.items.iter().filter(ours).map(|object| {
                    let held = object.metadata.finalizers.join(", ");
                    let held = if held.is_empty() { String::new() } else { format!(" (held by {held})") };
                    format!("{kind}/{}{held}", object.metadata.name)
                }));
                Ok(())
            })
            .await?;
        }
        Ok(left)
    }

    /// Pods that carry the labels of a job that is not there: (path, UID).
    pub async fn orphans(&self, namespace: &str, job: &str) -> Result<Vec<(String, String)>, Failure> {
        let selector = format!("{MANAGED_BY}={MANAGED_BY_US},{JOB}={job},batch.kubernetes.io/controller-uid");
        let collection = format!("/api/v1/namespaces/{namespace}/pods");
        let mut found = Vec::new();
        self.list(&collection, &[("labelSelector", &selector)], |page| {
            let page: Page<Named<'_>> = serde_json::from_slice(page)?;
            found.extend(
                page.items.iter().map(|pod| (format!("{collection}/{}", pod.metadata.name), pod.metadata.uid.to_string())),
            );
            Ok(())
        })
        .await?;
        Ok(found)
    }
}
