//! Reads what the cluster serves of queues and gangs: Kueue, Volcano, Kubernetes' own PodGroups, and the names of queues. It
//! chooses none.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Connection, Failure, unless_forbidden};
use crate::model::gpu::is_device;
use crate::model::{GpuCount, Queue, QueueSystem, quantity};

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

    /// Returns the queues of all systems, by namespace and name; of Kueue those of one namespace where one is given.
    pub(crate) async fn queues(&self, served: &ServedQueueing, namespace: Option<&str>) -> Result<Vec<Queue>, Failure> {
        let mut queues = Vec::new();
        if let Some(version) = served.of(QueueSystem::Kueue) {
            let path = match namespace {
                Some(namespace) => format!("/apis/{version}/namespaces/{namespace}/localqueues"),
                None => format!("/apis/{version}/localqueues"),
            };
            // They are the cluster's, and not everybody may read them.
            let shared = match self.objects(&format!("/apis/{version}/clusterqueues")).await {
                Err(failure) if failure.is_not_found() => Vec::new(),
                other => unless_forbidden(other)?.unwrap_or_default(),
            };
            let shared: BTreeMap<&str, &Value> = shared.iter().map(|queue| (text(queue, "/metadata/name"), queue)).collect();
            let local = self.objects(&path).await?;
            queues.extend(local.iter().map(|queue| of_kueue(queue, shared.get(text(queue, "/spec/clusterQueue")).copied())));
        }
        if let Some(version) = served.of(QueueSystem::Volcano) {
            let found = self.objects(&format!("/apis/{version}/queues")).await?;
            queues.extend(found.iter().map(of_volcano));
        }
        queues.sort_by(|a, b| (&a.namespace, &a.name, a.system).cmp(&(&b.namespace, &b.name, b.system)));
        Ok(queues)
    }

    async fn objects(&self, path: &str) -> Result<Vec<Value>, Failure> {
        let mut found = Vec::new();
        self.list(path, &[], |page| {
            let mut page: Value = serde_json::from_slice(page)?;
            found.extend(page["items"].as_array_mut().map(std::mem::take).unwrap_or_default());
            Ok(())
        })
        .await?;
        Ok(found)
    }
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn owned(object: &Value, pointer: &str) -> Option<String> {
    Some(text(object, pointer)).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
}

fn number(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns how many devices a quantity is.
fn devices(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => quantity::milli(text).and_then(|milli| u64::try_from(milli / 1000).ok()),
        _ => None,
    }
}

/// Adds up the devices of a list of flavors: `[{resources: [{name, FIELD}]}]`; `None` where none of them is a device.
fn of_flavors(flavors: Option<&Value>, field: &str) -> Option<GpuCount> {
    let flavors = flavors.and_then(Value::as_array).into_iter().flatten();
    let resources = flavors.flat_map(|flavor| flavor["resources"].as_array().into_iter().flatten());
    let counted: Vec<u64> =
        resources.filter(|one| is_device(text(one, "/name"))).filter_map(|one| devices(&one[field])).collect();
    (!counted.is_empty()).then(|| GpuCount(counted.into_iter().sum()))
}

/// Reads a LocalQueue with its ClusterQueue. Source: kueue.x-k8s.io/v1beta2.
fn of_kueue(queue: &Value, shared: Option<&Value>) -> Queue {
    let inactive = |queue: &Value| {
        let conditions = queue["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "Active" && condition["status"] == "False")
    };
    let inactive = inactive(queue).or_else(|| shared.and_then(inactive));
    let groups = shared.and_then(|shared| shared.pointer("/spec/resourceGroups")).and_then(Value::as_array);
    let quotas: Vec<GpuCount> =
        groups.into_iter().flatten().filter_map(|group| of_flavors(group.get("flavors"), "nominalQuota")).collect();
    Queue {
        system: QueueSystem::Kueue,
        name: text(queue, "/metadata/name").to_owned(),
        namespace: owned(queue, "/metadata/namespace"),
        cluster_queue: owned(queue, "/spec/clusterQueue"),
        active: inactive.is_none(),
        message: inactive.and_then(|condition| owned(&condition, "/message")),
        quota: (!quotas.is_empty()).then(|| quotas.into_iter().sum()),
        used: of_flavors(queue.pointer("/status/flavorsUsage"), "total"),
        borrowed: of_flavors(shared.and_then(|shared| shared.pointer("/status/flavorsUsage")), "borrowed"),
        running: number(queue, "/status/admittedWorkloads"),
        waiting: number(queue, "/status/pendingWorkloads"),
    }
}

/// Reads a Queue of Volcano's. Source: scheduling.volcano.sh/v1beta1.
fn of_volcano(queue: &Value) -> Queue {
    let of = |pointer: &str| {
        let resources = queue.pointer(pointer).and_then(Value::as_object)?;
        let counted: Vec<u64> =
            resources.iter().filter(|(name, _)| is_device(name)).filter_map(|(_, value)| devices(value)).collect();
        (!counted.is_empty()).then(|| GpuCount(counted.into_iter().sum()))
    };
    let state = text(queue, "/status/state");
    Queue {
        system: QueueSystem::Volcano,
        name: text(queue, "/metadata/name").to_owned(),
        namespace: None,
        cluster_queue: None,
        active: matches!(state, "" | "Open"),
        message: (!matches!(state, "" | "Open")).then(|| format!("the queue is {}", state.to_lowercase())),
        quota: of("/spec/capability").or_else(|| of("/spec/deserved")),
        used: of("/status/allocated"),
        borrowed: None,
        running: number(queue, "/status/running"),
        waiting: number(queue, "/status/pending") + number(queue, "/status/inqueue"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Two flavors of 8 and 4 GPUs; CPUs do not count.
    #[test]
    fn queues_are_counted_in_devices() {
        let flavor = |gpus: &str, field: &str| json!({"name": "f", "resources": [{"name": "nvidia.com/gpu", field: gpus}, {"name": "cpu", field: "99"}]});
        let shared = json!({"spec": {"resourceGroups": [{"flavors": [flavor("8", "nominalQuota"), flavor("4", "nominalQuota")]}]},
            "status": {"flavorsUsage": [flavor("3", "borrowed")]}});
        let local = json!({"metadata": {"name": "research", "namespace": "team-a"}, "spec": {"clusterQueue": "science"},
            "status": {"pendingWorkloads": 2, "admittedWorkloads": 1, "flavorsUsage": [flavor("5", "total")]}});
        let queue = of_kueue(&local, Some(&shared));
        assert_eq!((queue.quota, queue.used, queue.borrowed), (Some(GpuCount(12)), Some(GpuCount(5)), Some(GpuCount(3))));
        assert_eq!((queue.running, queue.waiting, queue.active), (1, 2, true));
        let unseen = of_kueue(&local, None);
        assert_eq!((unseen.quota, unseen.borrowed), (None, None), "unknown is not zero");
        let volcano = of_volcano(&json!({"metadata": {"name": "q"}, "spec": {"capability": {"nvidia.com/gpu": 16, "cpu": "4"}},
            "status": {"state": "Closed", "allocated": {"nvidia.com/gpu": "8"}, "running": 1, "pending": 1, "inqueue": 1}}));
        assert_eq!((volcano.quota, volcano.used), (Some(GpuCount(16)), Some(GpuCount(8))));
        assert_eq!((volcano.active, volcano.waiting), (false, 2));
    }
}
