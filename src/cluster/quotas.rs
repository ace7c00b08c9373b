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
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    hard: BTreeMap<String, String>,
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
                    hard: quota.status.hard.clone(),
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

    /// Deletes a namespace that we made and that holds no pod, claim or job of anybody's. False when it stays.
    pub async fn remove_empty_namespace(&self, name: &str) -> Result<bool, Failure> {
        let path = format!("/api/v1/namespaces/{name}");
        let found: Option<serde_json::Value> = self.find(&path).await?;
        let Some(uid) = found
            .filter(|found| found["metadata"]["labels"][MANAGED_BY] == MANAGED_BY_US)
            .and_then(|found| found["metadata"]["uid"].as_str().map(ToOwned::to_owned))
        else {
            return Ok(false);
        };
        for collection in ["/api/v1", "/apis/apps/v1", "/apis/batch/v1"] {
            let kinds: &[&str] = match collection {
                "/api/v1" => &["pods", "persistentvolumeclaims", "services"],
                "/apis/apps/v1" => &["deployments", "statefulsets"],
                _ => &["jobs", "cronjobs"],
            };
            for kind in kinds {
                let mut any = false;
                self.list(&format!("{collection}/namespaces/{name}/{kind}"), &[], |page| {
                    let page: Page<serde::de::IgnoredAny> = serde_json::from_slice(page)?;
                    any |= !page.items.is_empty();
                    Ok(())
                })
                .await?;
                if any {
                    return Ok(false);
                }
            }
        }
        self.delete_at(&path, Deletion { uid: Some(&uid), force: false }).await
    }
}
