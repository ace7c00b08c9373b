//! Detects NetworkPolicies that gpuctl did not create and that isolate a namespace.

use std::borrow::Cow;

use serde::Deserialize;

use crate::transport::decode::{ListPage, ObjectMetadata};
use crate::{Failure, handles::NamespacesApi};
use gpuctl_core::model::contract::labels::{MANAGED_BY, MANAGED_BY_US};

#[derive(Deserialize)]
struct WirePolicy<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
    #[serde(borrow, default)]
    spec: PolicySpec<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PolicySpec<'a> {
    #[serde(borrow)]
    policy_types: Vec<Cow<'a, str>>,
}

impl WirePolicy<'_> {
    /// Returns true if the policy restricts ingress and was not created by gpuctl.
    fn isolates(&self) -> bool {
        let types = &self.spec.policy_types;
        let is_foreign = self
            .metadata
            .labels
            .get(MANAGED_BY)
            .is_none_or(|manager| manager != MANAGED_BY_US);
        // An empty `policyTypes` always includes ingress, even without ingress rules
        // (`NetworkPolicySpec`).
        is_foreign && (types.is_empty() || types.iter().any(|kind| kind == "Ingress"))
    }
}

impl NamespacesApi<'_> {
    /// Returns true if the namespace has an ingress policy that gpuctl did not create.
    pub async fn is_isolated_by_others(self, namespace: &str) -> Result<bool, Failure> {
        let path = format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies");
        let mut is_isolated = false;
        let result = self
            .0
            .list_whole(&path, &[], |page| {
                let page: ListPage<WirePolicy<'_>> = page.objects()?;
                is_isolated |= page.items.iter().any(WirePolicy::isolates);
                Ok(())
            })
            .await;
        match result {
            Err(failure) if failure.is_not_found() => Ok(false),
            result => result.map(|()| is_isolated),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_foreign_policies_for_ingress_isolate() {
        let isolates = |labels: serde_json::Value, spec: serde_json::Value| {
            let text =
                json!({"metadata": {"name": "a", "labels": labels}, "spec": spec}).to_string();
            serde_json::from_str::<WirePolicy<'_>>(&text)
                .unwrap()
                .isolates()
        };
        assert!(isolates(
            json!({}),
            json!({"podSelector": {}, "policyTypes": ["Ingress"]})
        ));
        assert!(isolates(json!({}), json!({"podSelector": {}})));
        assert!(isolates(
            json!({MANAGED_BY: "Helm"}),
            json!({"policyTypes": ["Egress", "Ingress"]})
        ));
        assert!(!isolates(json!({}), json!({"policyTypes": ["Egress"]})));
        assert!(!isolates(
            json!({MANAGED_BY: MANAGED_BY_US}),
            json!({"policyTypes": ["Ingress"]})
        ));
    }
}
