//! Reads the hard limits and current use of ResourceQuotas.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::transport::decode::{ListPage, ObjectMetadata};
use crate::write::apply::Deletion;
use crate::{Failure, handles::QuotasApi};
use gpuctl_core::model::QuotaUse;
use gpuctl_core::model::contract::labels::{MANAGED_BY, MANAGED_BY_US, QUOTA};
use gpuctl_core::model::values::natural::full_name;

#[derive(Deserialize)]
struct WireQuota<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: QuotaStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    hard: BTreeMap<String, String>,
    scopes: Vec<IgnoredAny>,
    #[serde(rename = "scopeSelector")]
    scope_selector: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct QuotaStatus {
    used: BTreeMap<String, String>,
}

/// A ResourceQuota or LimitRange of a gpuctl quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaPart {
    pub namespace: String,
    pub plural: &'static str,
    pub name: String,
    uid: String,
}

impl QuotaPart {
    /// Formats the object as `kind/name`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.plural.trim_end_matches('s'), self.name)
    }

    fn path(&self) -> String {
        format!(
            "/api/v1/namespaces/{}/{}/{}",
            self.namespace, self.plural, self.name
        )
    }
}

impl QuotasApi<'_> {
    /// Lists the quotas in one namespace or in every namespace, and marks gpuctl's own.
    pub async fn list(self, namespace: Option<&str>) -> Result<Vec<QuotaUse>, Failure> {
        let path = namespace.map_or_else(
            || "/api/v1/resourcequotas".to_owned(),
            |namespace| format!("/api/v1/namespaces/{namespace}/resourcequotas"),
        );
        let mut quotas = Vec::new();
        self.0
            .list(&path, &[], |page| {
                let page: ListPage<WireQuota<'_>> = page.objects()?;
                quotas.extend(page.items.iter().map(|quota| {
                    let labels = &quota.metadata.labels;
                    let is_managed = labels
                        .get(MANAGED_BY)
                        .is_some_and(|manager| manager == MANAGED_BY_US);
                    QuotaUse {
                        namespace: quota.metadata.namespace.to_string(),
                        name: quota.metadata.name.to_string(),
                        quota: labels.get(QUOTA).filter(|_| is_managed).cloned(),
                        hard: quota.spec.hard.clone(),
                        used: quota.status.used.clone(),
                        scoped: !quota.spec.scopes.is_empty()
                            || quota.spec.scope_selector.is_some(),
                    }
                }));
                Ok(())
            })
            .await?;
        quotas.sort_by(|a, b| {
            full_name(&a.namespace, &a.name).cmp(&full_name(&b.namespace, &b.name))
        });
        Ok(quotas)
    }

    /// Lists the objects of a gpuctl quota in a namespace. The ResourceQuota comes last, because
    /// gpuctl finds the LimitRange only while the ResourceQuota exists.
    pub async fn parts(self, namespace: &str, name: &str) -> Result<Vec<QuotaPart>, Failure> {
        let mut parts = Vec::new();
        for plural in ["limitranges", "resourcequotas"] {
            let part = QuotaPart {
                namespace: namespace.to_owned(),
                plural,
                name: name.to_owned(),
                uid: String::new(),
            };
            let object: Option<serde_json::Value> = self.0.find(&part.path()).await?;
            let is_part = |object: &serde_json::Value| {
                let labels = &object["metadata"]["labels"];
                labels[MANAGED_BY] == MANAGED_BY_US && labels[QUOTA] == name
            };
            if let Some(object) = object.filter(is_part) {
                let uid = object["metadata"]["uid"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                parts.push(QuotaPart { uid, ..part });
            }
        }
        Ok(parts)
    }

    /// Deletes one of a quota's objects.
    pub async fn remove_part(self, part: &QuotaPart) -> Result<(), Failure> {
        self.0
            .writes()
            .delete_at(&part.path(), Deletion::with_uid(&part.uid))
            .await
            .map(|_| ())
    }
}
