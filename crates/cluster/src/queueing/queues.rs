//! Finds the queueing and gang scheduling systems that the cluster serves (Kueue, Volcano,
//! Kubernetes' PodGroups), and lists their queues. `deploy/queueing.rs` chooses among the systems.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{Failure, handles::QueuesApi};
use gpuctl_core::model::facts::resource::is_device;
use gpuctl_core::model::values::natural::Natural;
use gpuctl_core::model::values::quantity;
use gpuctl_core::model::{GpuCount, Queue, QueueSystem};

/// Versions of `scheduling.k8s.io` whose PodGroup has `schedulingPolicy.gang.minCount`, newest
/// first. Source: k8s.io/api 0.36.3 and 0.37.0.
pub(crate) const POD_GROUP_VERSIONS: [&str; 3] = ["v1beta1", "v1alpha3", "v1alpha2"];

/// API group and version of each system, or `None` for systems that the cluster does not serve.
#[derive(Clone, Debug, Default)]
pub struct ServedQueueing {
    kueue: Option<String>,
    volcano: Option<String>,
    /// For example `scheduling.k8s.io/v1alpha2`.
    pub pod_groups: Option<String>,
}

impl ServedQueueing {
    /// Returns the API group and version of a system's queues.
    pub fn version_of(&self, system: QueueSystem) -> Option<&str> {
        match system {
            QueueSystem::Kueue => self.kueue.as_deref(),
            QueueSystem::Volcano => self.volcano.as_deref(),
        }
    }

    /// Lists the systems that the cluster serves.
    pub fn systems(&self) -> impl Iterator<Item = QueueSystem> {
        QueueSystem::ALL
            .into_iter()
            .filter(|system| self.version_of(*system).is_some())
    }
}

impl QueuesApi<'_> {
    /// Reads which systems the cluster serves.
    pub async fn served(self) -> Result<ServedQueueing, Failure> {
        let groups = self.0.get::<Value>("/apis").await?;
        let group = |name: &str| {
            groups["groups"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|group| group["name"] == name)
        };
        let preferred = |name: &str| {
            group(name).and_then(|group| {
                Some(
                    group["preferredVersion"]["groupVersion"]
                        .as_str()?
                        .to_owned(),
                )
            })
        };
        let mut served = ServedQueueing {
            kueue: preferred("kueue.x-k8s.io"),
            volcano: preferred("scheduling.volcano.sh"),
            pod_groups: None,
        };
        let versions = group("scheduling.k8s.io")
            .and_then(|group| group["versions"].as_array())
            .into_iter()
            .flatten();
        let versions: BTreeSet<&str> = versions
            .filter_map(|version| version["version"].as_str())
            .collect();
        for version in POD_GROUP_VERSIONS
            .into_iter()
            .filter(|version| versions.contains(version))
        {
            let version = format!("scheduling.k8s.io/{version}");
            // Check the kind too: `PriorityClass` is in the same group, so a version can be served
            // without PodGroups.
            let resources = self
                .0
                .find::<Value>(&format!("/apis/{version}"))
                .await?
                .unwrap_or_default();
            let mut names = resources["resources"].as_array().into_iter().flatten();
            if names.any(|resource| resource["name"] == "podgroups") {
                served.pod_groups = Some(version);
                break;
            }
        }
        Ok(served)
    }

    /// Lists the names of a system's queues for jobs of this namespace. Volcano's queues are
    /// cluster-scoped.
    pub async fn names(
        self,
        system: QueueSystem,
        version: &str,
        namespace: &str,
    ) -> Result<BTreeSet<String>, Failure> {
        let path = match system {
            QueueSystem::Kueue => format!("/apis/{version}/namespaces/{namespace}/localqueues"),
            QueueSystem::Volcano => format!("/apis/{version}/queues"),
        };
        let mut names = BTreeSet::new();
        self.0
            .list(&path, &[], |page| {
                let page: Value = page.decode()?;
                let items = page["items"].as_array().into_iter().flatten();
                names.extend(
                    items.filter_map(|item| {
                        item["metadata"]["name"].as_str().map(ToOwned::to_owned)
                    }),
                );
                Ok(())
            })
            .await?;
        Ok(names)
    }

    /// Lists the queues of all systems by namespace and name, and the systems whose queues the user
    /// cannot list. Fails if the user cannot list any queues. `namespace` limits Kueue's queues to
    /// one namespace.
    pub async fn list(
        self,
        served: &ServedQueueing,
        namespace: Option<&str>,
    ) -> Result<(Vec<Queue>, Vec<QueueSystem>), Failure> {
        let (mut queues, mut forbidden, mut first_failure) = (Vec::new(), Vec::new(), None);
        for system in served.systems() {
            let version = served.version_of(system).unwrap_or_default();
            let result = match system {
                QueueSystem::Kueue => self.queues_of_kueue(version, namespace).await,
                QueueSystem::Volcano => self.queues_of_volcano(version).await,
            };
            match result {
                Ok(list) => queues.extend(list),
                Err(failure) if failure.is_not_found() => {}
                Err(failure) if failure.is_forbidden() => {
                    forbidden.push(system);
                    first_failure.get_or_insert(failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        if let Some(failure) = first_failure.filter(|_| forbidden.len() == served.systems().count())
        {
            return Err(failure);
        }
        queues.sort_by(|a, b| {
            let [a, b] = [a, b].map(|queue| {
                let namespace = queue.namespace.as_deref().map(Natural);
                (namespace, Natural(&queue.name), queue.system)
            });
            a.cmp(&b)
        });
        Ok((queues, forbidden))
    }

    async fn queues_of_kueue(
        self,
        version: &str,
        namespace: Option<&str>,
    ) -> Result<Vec<Queue>, Failure> {
        let path = match namespace {
            Some(namespace) => format!("/apis/{version}/namespaces/{namespace}/localqueues"),
            None => format!("/apis/{version}/localqueues"),
        };
        // Ordinary users often cannot list ClusterQueues, which are cluster-scoped.
        let cluster_queues = match self
            .objects(&format!("/apis/{version}/clusterqueues"))
            .await
        {
            Err(failure) if failure.is_not_found() || failure.is_forbidden() => Vec::new(),
            other => other?,
        };
        let by_name: BTreeMap<&str, &Value> = cluster_queues
            .iter()
            .map(|queue| (text(queue, "/metadata/name"), queue))
            .collect();
        let local_queues = self.objects(&path).await?;
        Ok(local_queues
            .iter()
            .map(|queue| {
                kueue_queue(
                    queue,
                    by_name.get(text(queue, "/spec/clusterQueue")).copied(),
                )
            })
            .collect())
    }

    /// Reads Volcano's queues and counts their PodGroups, because the queues do not report how many
    /// jobs they have (volcano-sh/volcano#4584).
    async fn queues_of_volcano(self, version: &str) -> Result<Vec<Queue>, Failure> {
        let queues = self.objects(&format!("/apis/{version}/queues")).await?;
        let groups = self
            .objects(&format!("/apis/{version}/podgroups"))
            .await
            .ok();
        Ok(queues
            .iter()
            .map(|queue| volcano_queue(queue, groups.as_deref()))
            .collect())
    }

    pub(super) async fn objects(self, path: &str) -> Result<Vec<Value>, Failure> {
        let mut objects = Vec::new();
        self.0
            .list(path, &[], |page| {
                let mut page: Value = page.decode()?;
                objects.extend(
                    page["items"]
                        .as_array_mut()
                        .map(std::mem::take)
                        .unwrap_or_default(),
                );
                Ok(())
            })
            .await?;
        Ok(objects)
    }
}

pub(super) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn owned(object: &Value, pointer: &str) -> Option<String> {
    Some(text(object, pointer))
        .filter(|text| !text.is_empty())
        .map(ToOwned::to_owned)
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}

/// Reads a count from the status. A missing field is 0, but without a status the count is unknown.
fn number(object: &Value, field: &str) -> Option<u64> {
    let status = object["status"]
        .as_object()
        .filter(|status| !status.is_empty())?;
    Some(status.get(field).and_then(Value::as_u64).unwrap_or(0))
}

/// Parses a quantity as a number of devices.
fn devices(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => {
            quantity::milli(text).and_then(|milli| u64::try_from(milli / 1000).ok())
        }
        _ => None,
    }
}

/// Sums the devices in a list of flavors, `[{resources: [{name, FIELD}]}]`. Returns `None` if no
/// resource is a device.
fn flavor_devices(flavors: Option<&Value>, field: &str) -> Option<GpuCount> {
    let flavors = flavors.and_then(Value::as_array).into_iter().flatten();
    let resources = flavors.flat_map(|flavor| flavor["resources"].as_array().into_iter().flatten());
    let amounts: Vec<u64> = resources
        .filter(|resource| is_device(text(resource, "/name")))
        .filter_map(|resource| devices(&resource[field]))
        .collect();
    (!amounts.is_empty()).then(|| amounts.into_iter().map(GpuCount).sum())
}

/// Reads a LocalQueue and its ClusterQueue. Source: kueue.x-k8s.io/v1beta2, and v1beta1, where the
/// field is called `flavorUsage`.
fn kueue_queue(queue: &Value, cluster_queue: Option<&Value>) -> Queue {
    let inactive = |queue: &Value| {
        let conditions = queue["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions
            .into_iter()
            .find(|condition| condition["type"] == "Active" && condition["status"] == "False")
    };
    let inactive = inactive(queue).or_else(|| cluster_queue.and_then(inactive));
    let groups = cluster_queue
        .and_then(|cluster_queue| cluster_queue.pointer("/spec/resourceGroups"))
        .and_then(Value::as_array);
    let quotas: Vec<GpuCount> = groups
        .into_iter()
        .flatten()
        .filter_map(|group| flavor_devices(group.get("flavors"), "nominalQuota"))
        .collect();
    Queue {
        system: QueueSystem::Kueue,
        name: text(queue, "/metadata/name").to_owned(),
        namespace: owned(queue, "/metadata/namespace"),
        cluster_queue: owned(queue, "/spec/clusterQueue"),
        active: inactive.is_none(),
        message: inactive.and_then(|condition| owned(&condition, "/message")),
        quota: (!quotas.is_empty()).then(|| quotas.into_iter().sum()),
        used: flavor_devices(
            queue
                .pointer("/status/flavorsUsage")
                .or_else(|| queue.pointer("/status/flavorUsage")),
            "total",
        ),
        borrowed: flavor_devices(
            cluster_queue.and_then(|cluster_queue| cluster_queue.pointer("/status/flavorsUsage")),
            "borrowed",
        ),
        running: number(queue, "admittedWorkloads"),
        waiting: number(queue, "pendingWorkloads"),
        labels: Some(labels(queue)),
    }
}

/// Reads a Volcano queue. `groups` holds all PodGroups. Source: scheduling.volcano.sh/v1beta1.
fn volcano_queue(queue: &Value, groups: Option<&[Value]>) -> Queue {
    let name = text(queue, "/metadata/name");
    let count_groups = |phases: &[&str]| {
        let queue_groups = groups?
            .iter()
            .filter(|group| text(group, "/spec/queue") == name);
        Some(
            queue_groups
                .filter(|group| phases.contains(&text(group, "/status/phase")))
                .count() as u64,
        )
    };
    let devices_in = |pointer: &str| {
        let resources = queue.pointer(pointer).and_then(Value::as_object)?;
        let amounts: Vec<u64> = resources
            .iter()
            .filter(|(name, _)| is_device(name))
            .filter_map(|(_, value)| devices(value))
            .collect();
        (!amounts.is_empty()).then(|| amounts.into_iter().map(GpuCount).sum())
    };
    let state = text(queue, "/status/state");
    Queue {
        system: QueueSystem::Volcano,
        name: name.to_owned(),
        namespace: None,
        cluster_queue: None,
        active: matches!(state, "" | "Open"),
        message: (!matches!(state, "" | "Open")).then(|| format!("its state is {state}")),
        // A queue's hard limit is `capability`. Other queues can reclaim the part above `deserved`.
        quota: devices_in("/spec/capability").or_else(|| devices_in("/spec/deserved")),
        used: devices_in("/status/allocated"),
        borrowed: None,
        running: count_groups(&["Running"]),
        // A PodGroup has no phase until Volcano has processed it.
        waiting: count_groups(&["", "Pending", "Inqueue"]),
        labels: Some(labels(queue)),
    }
}

#[cfg(test)]
mod tests;
