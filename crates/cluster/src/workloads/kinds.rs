//! Finds the plural names of kinds that can own workloads, for request paths. Any user can write
//! any owner reference into a pod, so gpuctl reads only owners that satisfy these rules:
//!
//! - The kind is a custom resource or belongs to `apps` or `batch`. Of the core group, only pods
//!   and ReplicationControllers own pods. gpuctl never reads a Service, Secret or Node because a
//!   pod names it as its owner.
//! - Discovery lists the kind as namespaced, with the verb `get`, and not as a subresource.
//!
//! Discovery is cached for ten minutes. A kind that is not in the cache causes a new request.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::handles::WorkloadsApi;
use crate::transport::path::{is_segment, is_version};
use gpuctl_local::cache::Cache;

/// Seconds for which cached kinds are valid.
const KEPT: i64 = 600;

/// Maps each kind to its plural, or to `None` if it is cluster-scoped.
pub(crate) type Kinds = BTreeMap<String, Option<String>>;

impl WorkloadsApi<'_> {
    /// Lists the kinds of a version that can own workloads. Returns none if the cluster does not
    /// serve the version or the user cannot see it.
    pub(crate) async fn kinds_of(self, version: &str, required: &BTreeSet<&str>) -> Kinds {
        if version == "v1" {
            return CORE_OWNERS
                .map(|(kind, plural)| (kind.to_owned(), Some(plural.to_owned())))
                .into();
        }
        if !is_version(version) || !group_may_own(version) {
            return Kinds::new();
        }
        // Do not cache for bundles: cache keys contain the server, but a bundle describes another
        // cluster than the one at its address now.
        let cache = if self.0.access.bundle.is_some() {
            Cache::disabled()
        } else {
            Cache::cluster_facts()
        };
        let cache_key = json!(["owner kinds", self.0.server, version]).to_string();
        let now = self.0.server_time().map(Timestamp::as_second);
        if let Some(kinds) = now.and_then(|now| young(cache.get(&cache_key)?, now))
            && required.iter().all(|kind| kinds.contains_key(*kind))
        {
            return kinds;
        }
        let list = self
            .0
            .find::<Value>(&format!("{}/{version}", root_of(version)))
            .await
            .ok()
            .flatten();
        let kinds = list.as_ref().map(kinds_in).unwrap_or_default();
        // Do not cache an empty result, which may come from a temporary failure.
        if let Some(now) = now.filter(|_| !kinds.is_empty()) {
            cache.put(&cache_key, &json!({"at": now, "kinds": kinds}));
        }
        kinds
    }
}

/// Returns the cached kinds unless they have expired. A negative age, which occurs after the clock
/// was set back, counts as expired.
fn young(mut cached: Value, now: i64) -> Option<Kinds> {
    let is_fresh = (0..KEPT).contains(&(now - cached["at"].as_i64()?));
    is_fresh
        .then(|| serde_json::from_value(cached["kinds"].take()).ok())
        .flatten()
}

/// Core kinds that own pods. A Spark application's executors are owned by its driver pod.
const CORE_OWNERS: [(&str, &str); 2] = [
    ("Pod", "pods"),
    ("ReplicationController", "replicationcontrollers"),
];

/// Built-in API groups whose kinds do not own pods.
const WITHOUT_WORKLOADS: [&str; 21] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "custom.metrics.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "external.metrics.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "metrics.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Returns true if the group can have kinds that own workloads. Groups without a dot are built into
/// Kubernetes.
fn group_may_own(version: &str) -> bool {
    match version.split_once('/') {
        Some((group, _)) if group.contains('.') => !WITHOUT_WORKLOADS.contains(&group),
        Some((group, _)) => matches!(group, "apps" | "batch"),
        None => false,
    }
}

/// Returns true if the text of an owner reference allows it to name the owner of a workload.
pub(crate) fn may_own(api_version: &str, kind: &str, name: &str) -> bool {
    let is_kind = !kind.is_empty()
        && kind.len() <= 63
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_owner = match api_version {
        "v1" => CORE_OWNERS.iter().any(|(core_kind, _)| *core_kind == kind),
        version => is_version(version) && group_may_own(version),
    };
    is_kind && is_owner && is_segment(name)
}

/// Parses a discovery response. Names with `/` are subresources.
fn kinds_in(list: &Value) -> Kinds {
    let is_readable = |resource: &&Value| {
        resource["verbs"]
            .as_array()
            .is_some_and(|verbs| verbs.iter().any(|verb| verb == "get"))
    };
    list["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_readable)
        .filter_map(|resource| {
            Some((
                resource["kind"].as_str()?,
                resource["name"].as_str()?,
                resource["namespaced"].as_bool()?,
            ))
        })
        .filter(|(_, plural, _)| is_segment(plural))
        .map(|(kind, plural, namespaced)| (kind.to_owned(), namespaced.then(|| plural.to_owned())))
        .collect()
}

/// Returns the path prefix of an API version.
pub(crate) fn root_of(version: &str) -> &'static str {
    if version.contains('/') {
        "/apis"
    } else {
        "/api"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_kinds_age() {
        let cached = json!({"at": 1000, "kinds": {"RayJob": "rayjobs", "Region": null}});
        let read_at = |now| young(cached.clone(), now);
        assert_eq!(
            read_at(1599)
                .and_then(|kinds| kinds["RayJob"].clone())
                .as_deref(),
            Some("rayjobs")
        );
        assert_eq!((read_at(1600), read_at(999)), (None, None));
        assert_eq!(young(json!({"at": 1000, "kinds": "x"}), 1001), None);
    }

    #[test]
    fn only_kinds_with_pods_are_owners() {
        for (version, kind) in [
            ("apps/v1", "ReplicaSet"),
            ("batch/v1", "Job"),
            ("ray.io/v1", "RayCluster"),
            ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
            ("jobset.x-k8s.io/v1alpha2", "JobSet"),
            ("v1", "Pod"),
            ("v1", "ReplicationController"),
        ] {
            assert!(may_own(version, kind, "a-1"), "{version} {kind}");
        }
        for (version, kind, name) in [
            ("v1", "Service", "evil"),
            ("v1", "Secret", "a"),
            ("v1", "ConfigMap", "a"),
            ("v1", "Node", "n"),
            ("v1/", "Pod", "a"),
            ("policy/v1", "PodDisruptionBudget", "a"),
            ("rbac.authorization.k8s.io/v1", "Role", "a"),
            ("metrics.k8s.io/v1beta1", "PodMetrics", "a"),
            ("../../api/v1", "Service", "a"),
            ("a/b/c", "X", "a"),
            ("", "X", "a"),
            ("ray.io/v1", "RayCluster", "evil/proxy/admin/delete"),
            ("ray.io/v1", "RayCluster", ".."),
            ("ray.io/v1", "RayCluster", "a?watch=1"),
            ("ray.io/v1", "RayCluster", "a%2fb"),
            ("ray.io/v1", "RayCluster", ""),
            ("ray.io/v1", "Ray/proxy", "a"),
            ("ray.io/v1", "", "a"),
        ] {
            assert!(!may_own(version, kind, name), "{version} {kind} {name}");
        }
    }

    #[test]
    fn discovery_offers_only_objects_that_can_be_read() {
        let resource = |kind: &str, name: &str, namespaced: bool, verb: &str| json!({"kind": kind, "name": name, "namespaced": namespaced, "verbs": [verb]});
        let list = json!({"resources": [
            resource("RayJob", "rayjobs", true, "get"), resource("RayJob", "rayjobs/proxy", true, "get"),
            resource("Region", "regions", false, "get"), resource("Blind", "blinds", true, "create"), resource("Odd", "..", true, "get")]});
        assert_eq!(
            kinds_in(&list),
            [
                ("RayJob".to_owned(), Some("rayjobs".to_owned())),
                ("Region".to_owned(), None)
            ]
            .into()
        );
    }
}
