//! Builds the objects of a quota in one namespace: a ResourceQuota and a LimitRange.
//!
//! A ResourceQuota on CPU or memory rejects pods that do not request them. The LimitRange gives
//! such pods default requests.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Object;
use crate::spec::QuotaLimits;
use gpuctl_core::model::contract::labels::{DESCRIPTION, KIND, MANAGED_BY, MANAGED_BY_US, QUOTA};

/// Value of the label `gpuctl/kind` for the objects of quotas.
pub(super) const QUOTA_KIND: &str = "quota";

/// Builds a namespace with gpuctl's label.
pub fn namespace(name: &str) -> Object {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {MANAGED_BY: MANAGED_BY_US}}});
    Object {
        body,
        plural: "namespaces",
        shared: true,
        kept: true,
    }
}

/// Builds the objects of a quota in `namespace`. `resources` are the resource names of whole GPUs
/// in the cluster, because a ResourceQuota limits each name separately.
pub fn quota(
    name: &str,
    description: Option<&str>,
    namespace: &str,
    limits: &QuotaLimits,
    resources: &BTreeSet<String>,
) -> Vec<Object> {
    let mut hard = Map::new();
    let mut set = |key: String, value: Option<String>| {
        if let Some(value) = value {
            hard.insert(key, value.into());
        }
    };
    set("requests.cpu".to_owned(), limits.cpu.clone());
    set("requests.memory".to_owned(), limits.memory.clone());
    set("requests.storage".to_owned(), limits.storage.clone());
    set("pods".to_owned(), limits.pods.map(|pods| pods.to_string()));
    // Kubernetes allows only `requests.` quotas for extended resources.
    for resource in resources {
        set(
            format!("requests.{resource}"),
            limits.gpu.map(|gpu| gpu.to_string()),
        );
    }
    let mut metadata = json!({
        "name": name, "namespace": namespace,
        "labels": {MANAGED_BY: MANAGED_BY_US, KIND: QUOTA_KIND, QUOTA: name},
    });
    if let Some(description) = description {
        metadata["annotations"] = json!({DESCRIPTION: description});
    }
    let object = |plural, body| Object {
        body,
        plural,
        shared: false,
        kept: false,
    };
    let mut objects = vec![object(
        "resourcequotas",
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": Value::Object(hard)}}),
    )];
    let mut defaults = Map::new();
    if limits.cpu.is_some() {
        defaults.insert("cpu".to_owned(), "100m".into());
    }
    if limits.memory.is_some() {
        defaults.insert("memory".to_owned(), "256Mi".into());
    }
    if !defaults.is_empty() {
        objects.push(object(
            "limitranges",
            json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata,
                "spec": {"limits": [{"type": "Container", "defaultRequest": Value::Object(defaults)}]}}),
        ));
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_limit_covers_every_gpu_resource() {
        let limits = QuotaLimits {
            gpu: Some(4),
            cpu: Some("10".into()),
            ..QuotaLimits::default()
        };
        let names = ["amd.com/gpu", "nvidia.com/gpu"]
            .map(ToOwned::to_owned)
            .into();
        let objects = quota("q", None, "team-a", &limits, &names);
        let hard = json!({"requests.cpu": "10", "requests.amd.com/gpu": "4", "requests.nvidia.com/gpu": "4"});
        assert_eq!(objects[0].body["spec"]["hard"], hard);
        assert_eq!(
            objects[1].body["spec"]["limits"][0]["defaultRequest"],
            json!({"cpu": "100m"})
        );
        let gpus = quota(
            "q",
            None,
            "team-a",
            &QuotaLimits {
                gpu: Some(1),
                ..QuotaLimits::default()
            },
            &names,
        );
        assert_eq!(
            gpus.len(),
            1,
            "nothing has to be named for a quota on GPUs alone"
        );
    }
}
