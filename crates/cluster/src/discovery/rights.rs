//! Asks the API server for the user's permissions, with one SelfSubjectAccessReview for each.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};

use crate::{Failure, handles::DiscoveryApi};
use gpuctl_core::model::contract::labels::HOME;
use gpuctl_core::model::contract::rights::{Right, RightScope};

/// Maximum number of concurrent reviews.
const AT_ONCE: usize = 16;

impl DiscoveryApi<'_> {
    /// Checks each permission. Namespaced permissions are checked in `namespace`, or in all
    /// namespaces if it is `None`.
    pub async fn may(
        self,
        rights: &BTreeSet<Right>,
        namespace: Option<&str>,
    ) -> Result<BTreeMap<Right, bool>, Failure> {
        let review = |right: Right| async move {
            let (resource, subresource) = right
                .resource
                .split_once('/')
                .unwrap_or((right.resource, ""));
            // An empty namespace means all namespaces for a namespaced resource
            // (`ResourceAttributes` in authorization.k8s.io/v1).
            let namespace = match right.scope {
                RightScope::Namespace => namespace.unwrap_or_default(),
                RightScope::Home => HOME,
                RightScope::Cluster => "",
            };
            let attributes = json!({
                "verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource, "namespace": namespace,
            });
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            });
            let answer = self
                .0
                .writes()
                .post(
                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    &review,
                    false,
                )
                .await?;
            Ok((
                right,
                answer
                    .pointer("/status/allowed")
                    .and_then(Value::as_bool)
                    .unwrap_or(false),
            ))
        };
        stream::iter(rights.iter().copied().map(review))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Returns the user's name according to the API server, or `None` if the server does not report
    /// it. `SelfSubjectReview` has been in v1 since Kubernetes 1.28.
    pub async fn user(self) -> Result<Option<String>, Failure> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        match self
            .0
            .writes()
            .post(
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                &review,
                false,
            )
            .await
        {
            Ok(answer) => Ok(answer
                .pointer("/status/userInfo/username")
                .and_then(Value::as_str)
                .map(ToOwned::to_owned)),
            Err(failure) if failure.is_not_found() || failure.is_forbidden() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Whether the cluster serves this API group.
    pub async fn serves(self, group: &str) -> Result<bool, Failure> {
        Ok(self
            .0
            .find::<Value>(&format!("/apis/{group}"))
            .await?
            .is_some())
    }

    /// Returns the preferred version of an API group, such as `kueue.x-k8s.io/v1beta2`, or `None`
    /// if the cluster does not serve the group.
    pub(crate) async fn preferred_version(self, group: &str) -> Result<Option<String>, Failure> {
        let group = self.0.find::<Value>(&format!("/apis/{group}")).await?;
        let version = group.as_ref().and_then(|group| {
            group
                .pointer("/preferredVersion/groupVersion")?
                .as_str()
                .map(ToOwned::to_owned)
        });
        Ok(version)
    }

    /// Lists the API groups that the cluster serves.
    pub async fn groups(self) -> Result<BTreeSet<String>, Failure> {
        let groups: Value = self.0.get("/apis").await?;
        let names = groups["groups"].as_array().into_iter().flatten();
        Ok(names
            .filter_map(|group| group["name"].as_str().map(ToOwned::to_owned))
            .collect())
    }
}
