//! Checks whether a namespace that gpuctl created is empty, over every kind that the API server
//! serves, before it is deleted.

use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;

use crate::write::apply::Deletion;
use crate::{Failure, handles::NamespacesApi};
use gpuctl_core::model::contract::labels::{HOME, MANAGED_BY, MANAGED_BY_US};

/// What became of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespace {
    Deleted,
    /// Others made it, or it is gone.
    NotOurs,
    /// What is in it, or what of it may not be seen.
    Kept(String),
}

/// Made by the cluster itself in every namespace.
const OWN: [(&str, &str); 2] = [
    ("configmaps", "kube-root-ca.crt"),
    ("serviceaccounts", "default"),
];
/// Reports about other objects, and what is computed from them.
const DERIVED: [&str; 3] = ["events", "endpoints", "endpointslices"];
/// Lists on the way at once.
const AT_ONCE: usize = 8;

impl NamespacesApi<'_> {
    /// Whether a namespace exists. Returns true without the right to read it, so that a role keeps
    /// its rules.
    pub async fn exists(self, name: &str) -> Result<bool, Failure> {
        match self
            .0
            .find::<Value>(&format!("/api/v1/namespaces/{name}"))
            .await
        {
            Err(failure) if failure.is_forbidden() => Ok(true),
            other => other.map(|found| found.is_some()),
        }
    }

    /// Returns the names of all namespaces.
    pub async fn names(self) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        self.0
            .list("/api/v1/namespaces", &[], |page| {
                let page: Value = page.decode()?;
                let items = page["items"].as_array().into_iter().flatten();
                names.extend(
                    items.filter_map(|one| one["metadata"]["name"].as_str().map(ToOwned::to_owned)),
                );
                Ok(())
            })
            .await?;
        Ok(names)
    }

    /// Deletes a namespace that gpuctl made and in which nothing is left.
    pub async fn remove_empty(self, name: &str) -> Result<Namespace, Failure> {
        let path = format!("/api/v1/namespaces/{name}");
        let found: Option<Value> = self.0.find(&path).await?;
        let ours = |found: &Value| {
            found["metadata"]["labels"][MANAGED_BY] == MANAGED_BY_US && name != HOME
        };
        let Some(uid) = found
            .filter(ours)
            .and_then(|found| found["metadata"]["uid"].as_str().map(ToOwned::to_owned))
        else {
            return Ok(Namespace::NotOurs);
        };
        if let Some(held) = self.holds(name).await? {
            return Ok(Namespace::Kept(held));
        }
        self.0.writes().delete_at(&path, Deletion::of(&uid)).await?;
        Ok(Namespace::Deleted)
    }

    /// Returns a kind of object that is in the namespace, or that may not be looked for.
    async fn holds(self, namespace: &str) -> Result<Option<String>, Failure> {
        let groups: Value = self.0.get("/apis").await?;
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
        let mut held: Vec<String> = stream::iter(kinds.into_iter().flatten())
            .map(|(version, kind)| async move { self.one_of(&version, namespace, &kind).await })
            .buffer_unordered(AT_ONCE)
            .try_filter_map(|held| async move { Ok(held) })
            .try_collect()
            .await?;
        held.sort();
        Ok(held.into_iter().next())
    }

    /// Kinds of one version of a group that are listed by namespace, as (version, kind).
    async fn kinds(self, version: String) -> Result<Vec<(String, String)>, Failure> {
        // Metrics are answers, not objects.
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
        let kinds = kinds.filter(|kind| !kind.contains('/') && !DERIVED.contains(kind));
        Ok(kinds
            .map(|kind| (version.clone(), kind.to_owned()))
            .collect())
    }

    /// Returns the kind, when there is an object of it.
    async fn one_of(
        self,
        version: &str,
        namespace: &str,
        kind: &str,
    ) -> Result<Option<String>, Failure> {
        let mut any = false;
        let listed = self
            .0
            .list(
                &format!("{version}/namespaces/{namespace}/{kind}"),
                &[],
                |page| {
                    let page: Value = page.decode()?;
                    let own =
                        |name: &Value| OWN.iter().any(|(of, called)| *of == kind && name == called);
                    any |= page["items"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .any(|item| !own(&item["metadata"]["name"]));
                    Ok(())
                },
            )
            .await;
        match listed {
            Err(failure) if failure.is_forbidden() => {
                Ok(Some(format!("{kind}, which you may not list")))
            }
            Err(failure) if failure.is_not_found() => Ok(None),
            other => other.map(|()| any.then(|| kind.to_owned())),
        }
    }
}
