//! Deletes a namespace that gpuctl created, after checking that it contains no objects of any kind
//! that the API server serves.

use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;

use crate::write::apply::Deletion;
use crate::{Failure, handles::NamespacesApi};
use gpuctl_core::model::contract::labels::{HOME, MANAGED_BY, MANAGED_BY_US};

/// The outcome of removing a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespace {
    Deleted,
    /// The namespace was not created by gpuctl, or no longer exists.
    NotOurs,
    /// The namespace was kept, because this kind has objects in it or cannot be listed by the user.
    StillUsed(String),
}

/// Objects that Kubernetes creates in every namespace.
const DEFAULT_OBJECTS: [(&str, &str); 2] = [
    ("configmaps", "kube-root-ca.crt"),
    ("serviceaccounts", "default"),
];
/// Kinds whose objects do not keep a namespace alive, because Kubernetes derives them from other
/// objects.
const DERIVED: [&str; 3] = ["events", "endpoints", "endpointslices"];
/// Maximum number of concurrent list requests.
const AT_ONCE: usize = 8;

impl NamespacesApi<'_> {
    /// Returns true if the namespace exists or the user cannot read it. In the second case, a
    /// generated role must keep its rules for the namespace.
    pub async fn exists(self, name: &str) -> Result<bool, Failure> {
        match self
            .0
            .find::<Value>(&format!("/api/v1/namespaces/{name}"))
            .await
        {
            Err(failure) if failure.is_forbidden() => Ok(true),
            other => other.map(|namespace| namespace.is_some()),
        }
    }

    /// Returns true if the namespace is being deleted. Its phase is then `Terminating`
    /// (kubernetes, staging/src/k8s.io/api/core/v1/types.go).
    pub async fn is_terminating(self, name: &str) -> Result<bool, Failure> {
        let path = format!("/api/v1/namespaces/{name}");
        let namespace: Option<Value> = self.0.find(&path).await?;
        Ok(namespace.is_some_and(|namespace| namespace["status"]["phase"] == "Terminating"))
    }

    /// Lists the names of all namespaces.
    pub async fn names(self) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        self.0
            .list("/api/v1/namespaces", &[], |page| {
                let page: Value = page.decode()?;
                let items = page["items"].as_array().into_iter().flatten();
                names.extend(items.filter_map(|namespace| {
                    namespace["metadata"]["name"]
                        .as_str()
                        .map(ToOwned::to_owned)
                }));
                Ok(())
            })
            .await?;
        Ok(names)
    }

    /// Deletes the namespace if gpuctl created it and it is empty.
    pub async fn remove_empty(self, name: &str) -> Result<Namespace, Failure> {
        let path = format!("/api/v1/namespaces/{name}");
        let namespace: Option<Value> = self.0.find(&path).await?;
        let is_managed = |namespace: &Value| {
            namespace["metadata"]["labels"][MANAGED_BY] == MANAGED_BY_US && name != HOME
        };
        let Some(uid) = namespace
            .filter(is_managed)
            .and_then(|namespace| namespace["metadata"]["uid"].as_str().map(ToOwned::to_owned))
        else {
            return Ok(Namespace::NotOurs);
        };
        if let Some(remaining) = self.first_remaining(name).await? {
            return Ok(Namespace::StillUsed(remaining));
        }
        // Delete by UID, because a namespace with the same name may have been created since the
        // check.
        self.0
            .writes()
            .delete_at(&path, Deletion::with_uid(&uid))
            .await?;
        Ok(Namespace::Deleted)
    }

    /// Returns a kind that has objects in the namespace or that the user cannot list.
    async fn first_remaining(self, namespace: &str) -> Result<Option<String>, Failure> {
        let groups: Value = self.0.get("/apis").await?;
        // `/apis` does not list the core group, which is served under `/api`.
        let mut versions = vec!["/api/v1".to_owned()];
        let preferred = groups["groups"].as_array().into_iter().flatten();
        versions.extend(
            preferred
                .filter_map(|group| group["preferredVersion"]["groupVersion"].as_str())
                .map(|version| format!("/apis/{version}")),
        );
        let kinds: Vec<Vec<(String, String)>> =
            stream::iter(versions.into_iter().map(|version| self.kinds(version)))
                .buffer_unordered(AT_ONCE)
                .try_collect()
                .await?;
        let mut remaining: Vec<String> =
            stream::iter(kinds.into_iter().flatten())
                .map(|(version, kind)| async move {
                    self.first_of_kind(&version, namespace, &kind).await
                })
                .buffer_unordered(AT_ONCE)
                .try_filter_map(|kind| async move { Ok(kind) })
                .try_collect()
                .await?;
        remaining.sort();
        Ok(remaining.into_iter().next())
    }

    /// Lists the namespaced kinds of one group version, as (version, kind).
    async fn kinds(self, version: String) -> Result<Vec<(String, String)>, Failure> {
        // Skip metrics: an aggregated API server computes them on request, so they are not stored
        // objects.
        if version.contains("metrics.k8s.io") {
            return Ok(Vec::new());
        }
        let list: Value = self.0.get(&version).await?;
        let lists = |kind: &&Value| {
            let verbs = kind["verbs"].as_array();
            kind["namespaced"] == true
                && verbs.is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"))
        };
        let kinds = list["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(lists)
            .filter_map(|kind| kind["name"].as_str());
        // Discovery lists subresources as resources with a slash, such as `pods/log`.
        let kinds = kinds.filter(|kind| !kind.contains('/') && !DERIVED.contains(kind));
        Ok(kinds
            .map(|kind| (version.clone(), kind.to_owned()))
            .collect())
    }

    /// Returns the kind if it has objects in the namespace.
    async fn first_of_kind(
        self,
        version: &str,
        namespace: &str,
        kind: &str,
    ) -> Result<Option<String>, Failure> {
        let mut any = false;
        let result = self
            .0
            .list(
                &format!("{version}/namespaces/{namespace}/{kind}"),
                &[],
                |page| {
                    let page: Value = page.decode()?;
                    let is_default = |name: &Value| {
                        DEFAULT_OBJECTS.iter().any(|(default_kind, default_name)| {
                            *default_kind == kind && name == default_name
                        })
                    };
                    any |= page["items"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .any(|item| !is_default(&item["metadata"]["name"]));
                    Ok(())
                },
            )
            .await;
        match result {
            Err(failure) if failure.is_forbidden() => {
                Ok(Some(format!("{kind}, which you are not allowed to list")))
            }
            // The kind was removed between discovery and this request.
            Err(failure) if failure.is_not_found() => Ok(None),
            other => other.map(|()| any.then(|| kind.to_owned())),
        }
    }
}
