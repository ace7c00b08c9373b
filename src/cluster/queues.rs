//! Reads what the cluster serves of queues and gangs: Kueue, Volcano, Kubernetes' own PodGroups, and the names of queues. It
//! chooses none.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Connection, Failure};
use crate::model::QueueSystem;

/// Versions of `scheduling.k8s.io` whose PodGroup has `schedulingPolicy.gang.minCount`, the newest first. Source:
/// k8s.io/api 0.36.3 and 0.37.0.
const POD_GROUP_VERSIONS: [&str; 3] = ["v1beta1", "v1alpha3", "v1alpha2"];

/// Groups and versions that are served; `None` for what is not.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServedQueueing {
    kueue: Option<String>,
    volcano: Option<String>,
    /// `scheduling.k8s.io/v1alpha2`.
    pub pod_groups: Option<String>,
}

impl ServedQueueing {
    /// Returns the group and version of a system's queues.
    #[must_use]
    pub(crate) fn of(&self, system: QueueSystem) -> Option<&str> {
        match system {
            QueueSystem::Kueue => self.kueue.as_deref(),
            QueueSystem::Volcano => self.volcano.as_deref(),
        }
    }

    /// Returns the systems that are served.
    pub(crate) fn systems(&self) -> impl Iterator<Item = QueueSystem> {
        QueueSystem::ALL.into_iter().filter(|system| self.of(*system).is_some())
    }
}

impl Connection {
    /// Returns which systems the cluster serves.
    pub(crate) async fn served_queueing(&self) -> Result<ServedQueueing, Failure> {
        let groups = self.get::<Value>("/apis").await?;
        let group = |name: &str| groups["groups"].as_array().into_iter().flatten().find(|group| group["name"] == name);
        let preferred =
            |name: &str| group(name).and_then(|group| Some(group["preferredVersion"]["groupVersion"].as_str()?.to_owned()));
        let mut served =
            ServedQueueing { kueue: preferred("kueue.x-k8s.io"), volcano: preferred("scheduling.volcano.sh"), pod_groups: None };
        let versions = group("scheduling.k8s.io").and_then(|group| group["versions"].as_array()).into_iter().flatten();
        let versions: BTreeSet<&str> = versions.filter_map(|version| version["version"].as_str()).collect();
        if let Some(version) = POD_GROUP_VERSIONS.into_iter().find(|version| versions.contains(version)) {
            let version = format!("scheduling.k8s.io/{version}");
            let resources = self.get::<Value>(&format!("/apis/{version}")).await?;
            let mut names = resources["resources"].as_array().into_iter().flatten();
            served.pod_groups = names.any(|resource| resource["name"] == "podgroups").then_some(version);
        }
        Ok(served)
    }

    /// Returns the names of a system's queues that jobs of this namespace can use. Volcano's are the cluster's.
    pub(crate) async fn queue_names(
        &self,
        system: QueueSystem,
        version: &str,
        namespace: &str,
    ) -> Result<BTreeSet<String>, Failure> {
        let path = match system {
            QueueSystem::Kueue => format!("/apis/{version}/namespaces/{namespace}/localqueues"),
            QueueSystem::Volcano => format!("/apis/{version}/queues"),
        };
        let mut names = BTreeSet::new();
        self.list(&path, &[], |page| {
            let page: Value = serde_json::from_slice(page)?;
            let items = page["items"].as_array().into_iter().flatten();
            names.extend(items.filter_map(|item| item["metadata"]["name"].as_str().map(ToOwned::to_owned)));
            Ok(())
        })
        .await?;
        Ok(names)
    }
}
