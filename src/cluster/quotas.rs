//! Quotas as the cluster keeps them: what is hard and what is used, by namespace.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::QuotaUse;
use crate::render::{MANAGED_BY, MANAGED_BY_US, QUOTA};

use super::apply::Deletion;
use super::decode::{Metadata, Page};
use super::{Connection, Failure};

#[derive(Deserialize)]
struct WireQuota<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    hard: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    used: BTreeMap<String, String>,
}

impl Connection {
    /// Quotas of one namespace or of all: every one that binds, and which of them are ours.
    pub async fn quotas(&self, namespace: Option<&str>) -> Result<Vec<QuotaUse>, Failure> {
        let path = namespace.map_or_else(
            || "/api/v1/resourcequotas".to_owned(),
            |namespace| format!("/api/v1/namespaces/{namespace}/resourcequotas"),
        );
        let mut found = Vec::new();
        self.list(&path, &[], |page| {
            let page: Page<WireQuota<'_>> = serde_json::from_slice(page)?;
            found.extend(page.items.iter().map(|quota| {
                let labels = &quota.metadata.labels;
                let ours = labels.get(MANAGED_BY).is_some_and(|manager| manager == MANAGED_BY_US);
                QuotaUse {
                    namespace: quota.metadata.namespace.to_string(),
                    name: quota.metadata.name.to_string(),
                    quota: labels.get(QUOTA).filter(|_| ours).cloned(),
                    hard: quota.spec.hard.clone(),
                    used: quota.status.used.clone(),
                }
            }));
            Ok(())
        })
        .await?;
        found.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Ok(found)
    }

    /// Takes the objects of a quota of ours out of a namespace. The quota itself goes last: what fails can be done again.
    pub async fn remove_quota(&self, namespace: &str, name: &str) -> Result<(), Failure> {
        for plural in ["limitranges", "resourcequotas"] {
            let path = format!("/api/v1/namespaces/{namespace}/{plural}/{name}");
            let found: Option<serde_json::Value> = self.find(&path).await?;
            if found.is_some_and(|found| found["metadata"]["labels"][MANAGED_BY] == MANAGED_BY_US) {
                self.delete_at(&path, Deletion::default()).await?;
            }
        }
        Ok(())
    }
}
