//! Reads everything that decides whether a Kueue queue admits a job. Objects that the user cannot
//! read are missing in the facts, so that the simulation reports what it did not evaluate.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{try_join, try_join4};
use serde_json::Value;

use super::admission_wire::{accepts, cluster_queue, cohort, condition, flavor, inactive, list};
use super::admission_workloads::WorkloadFacts;
use super::queues::text;
use crate::{Failure, handles::QueuesApi, unless_forbidden};
use gpuctl_core::model::counting::admission::{Cohort, OpenQueue, QueueFacts, QueueState};

impl QueuesApi<'_> {
    /// Reads a LocalQueue and the objects that decide its admissions.
    pub async fn admission_facts(
        self,
        namespace: &str,
        queue: &str,
    ) -> Result<QueueFacts, Failure> {
        let facts = |cluster_queue: Option<String>, state| QueueFacts {
            name: queue.to_owned(),
            cluster_queue,
            state,
        };
        let Some(version) = self.kueue_version().await? else {
            let text = "the cluster does not serve Kueue".to_owned();
            return Ok(facts(None, QueueState::Missing(text)));
        };
        let path = format!("/apis/{version}/namespaces/{namespace}/localqueues");
        let Some(local_queues) = unless_forbidden(self.objects(&path).await)? else {
            let text = "you are not allowed to list localqueues".to_owned();
            return Ok(facts(None, QueueState::Unreadable(text)));
        };
        let local_queue = local_queues.iter().find(|object| named(object) == queue);
        let Some(local_queue) = local_queue else {
            let text = format!("it does not exist in namespace {namespace}");
            return Ok(facts(None, QueueState::Missing(text)));
        };
        let name = text(local_queue, "/spec/clusterQueue").to_owned();
        let cluster_queues = self
            .objects(&format!("/apis/{version}/clusterqueues"))
            .await;
        let cluster_queues = unless_forbidden(cluster_queues)?;
        let own = cluster_queues
            .as_ref()
            .map(|all| all.iter().find(|object| named(object) == name));
        if let Some(state) = closed(local_queue, &name, own) {
            return Ok(facts(Some(name), state));
        }
        let Some((cluster_queues, own)) = cluster_queues.as_ref().zip(own.flatten()) else {
            let text = "you are not allowed to list clusterqueues".to_owned();
            return Ok(facts(Some(name), QueueState::Unreadable(text)));
        };
        let mut open = self
            .open_queue(&version, namespace, own, local_queues.clone())
            .await?;
        open.cluster_queues = cluster_queues
            .iter()
            .map(|object| (named(object).to_owned(), cluster_queue(object)))
            .collect();
        Ok(facts(Some(name), QueueState::Open(Box::new(open))))
    }

    /// Reads what a ClusterQueue that admits jobs depends on, except other ClusterQueues.
    async fn open_queue(
        self,
        version: &str,
        namespace: &str,
        own: &Value,
        local_queues: Vec<Value>,
    ) -> Result<OpenQueue, Failure> {
        let flavors = format!("/apis/{version}/resourceflavors");
        let (cohorts, flavors, namespace_labels, (workloads, sees_all)) = try_join4(
            self.cohorts(version),
            async { unless_forbidden(self.objects(&flavors).await) },
            self.namespace_labels(namespace),
            self.workloads_and_queues(version, namespace, own, local_queues),
        )
        .await?;
        let by_name = |object: &Value| (named(object).to_owned(), flavor(object));
        Ok(OpenQueue {
            cluster_queues: BTreeMap::new(),
            cohorts,
            flavors: flavors.map(|flavors| flavors.iter().map(by_name).collect()),
            accepts_namespace: namespace_labels.map(|labels| accepts(own, &labels)),
            reserved: sees_all.then_some(workloads.reserved),
            waiting: workloads.waiting,
            excluded_resources: workloads.excluded_resources,
        })
    }

    /// Lists Cohort objects. Returns none if the cluster has no such kind.
    async fn cohorts(self, version: &str) -> Result<Option<BTreeMap<String, Cohort>>, Failure> {
        // Kueue 0.9 to 0.12 serve the kind only as v1alpha1.
        let versions = [version, "kueue.x-k8s.io/v1alpha1"];
        for version in versions {
            match self.objects(&format!("/apis/{version}/cohorts")).await {
                Err(failure) if failure.is_not_found() => {}
                other => {
                    let by_name = |object: &Value| (named(object).to_owned(), cohort(object));
                    let cohorts = unless_forbidden(other)?;
                    return Ok(cohorts.map(|cohorts| cohorts.iter().map(by_name).collect()));
                }
            }
        }
        Ok(Some(BTreeMap::new()))
    }

    /// Reads the labels of a namespace, or `None` if it does not exist or is not readable.
    async fn namespace_labels(
        self,
        namespace: &str,
    ) -> Result<Option<BTreeMap<String, String>>, Failure> {
        let object = self
            .0
            .find_in::<Value>("/api/v1/namespaces", namespace)
            .await;
        let object = unless_forbidden(object)?.flatten();
        Ok(object.map(|object| {
            let labels = object
                .pointer("/metadata/labels")
                .and_then(Value::as_object);
            let text =
                |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
            labels.into_iter().flatten().filter_map(text).collect()
        }))
    }

    /// Reads Workloads and whether these are the Workloads of all namespaces. Without the right to
    /// list all of them, reads those of the namespace.
    async fn workloads_and_queues(
        self,
        version: &str,
        namespace: &str,
        own: &Value,
        local_queues: Vec<Value>,
    ) -> Result<(WorkloadFacts, bool), Failure> {
        let in_all = |kind: &str| format!("/apis/{version}/{kind}");
        let (queues_path, workloads_path) = (in_all("localqueues"), in_all("workloads"));
        let (queues, workloads) = try_join(
            async { unless_forbidden(self.objects(&queues_path).await) },
            async { unless_forbidden(self.objects(&workloads_path).await) },
        )
        .await?;
        let sees_all = workloads.is_some();
        let workloads = match workloads {
            Some(workloads) => workloads,
            None => {
                let path = format!("/apis/{version}/namespaces/{namespace}/workloads");
                unless_forbidden(self.objects(&path).await)?.unwrap_or_default()
            }
        };
        let name = named(own);
        let admits = |queue: &&Value| {
            text(queue, "/spec/clusterQueue") == name
                && matches!(text(queue, "/spec/stopPolicy"), "" | "None")
        };
        let queues: BTreeSet<(String, String)> = queues
            .unwrap_or(local_queues)
            .iter()
            .filter(admits)
            .map(|queue| {
                (
                    text(queue, "/metadata/namespace").to_owned(),
                    named(queue).to_owned(),
                )
            })
            .collect();
        let mut facts = WorkloadFacts::default();
        for workload in &workloads {
            facts.add(workload, name, &queues);
        }
        Ok((facts, sees_all))
    }

    /// Reads the requests that LimitRanges of the namespace give to containers without requests.
    /// Returns `None` if the user cannot list LimitRanges.
    pub async fn default_requests(
        self,
        namespace: &str,
    ) -> Result<Option<BTreeMap<String, String>>, Failure> {
        let path = format!("/api/v1/namespaces/{namespace}/limitranges");
        let ranges = unless_forbidden(self.objects(&path).await)?;
        Ok(ranges.map(|ranges| {
            let limits = ranges.iter().flat_map(|range| list(range, "/spec/limits"));
            let of_containers = limits.filter(|limit| limit["type"] == "Container");
            let defaults = of_containers.filter_map(|limit| limit["defaultRequest"].as_object());
            defaults
                .flatten()
                .filter_map(|(resource, value)| {
                    Some((resource.clone(), value.as_str()?.to_owned()))
                })
                .collect()
        }))
    }
}

fn named(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// Returns why a queue admits no jobs, whatever they request. `own` is its ClusterQueue: `None` if
/// ClusterQueues cannot be listed, and `Some(None)` if it does not exist.
fn closed(local_queue: &Value, name: &str, own: Option<Option<&Value>>) -> Option<QueueState> {
    let missing = || QueueState::Missing(format!("ClusterQueue {name} does not exist"));
    match own {
        Some(None) => return Some(missing()),
        Some(Some(own)) => {
            let subject = format!("ClusterQueue {name}");
            if let Some(text) = inactive(own, &subject) {
                return Some(QueueState::Inactive(text));
            }
        }
        None => {
            // Source: pkg/controller/core/localqueue_controller.go.
            let active = condition(local_queue, "Active");
            if active.is_some_and(|active| active["reason"] == "ClusterQueueDoesNotExist") {
                return Some(missing());
            }
        }
    }
    inactive(local_queue, "the LocalQueue").map(QueueState::Inactive)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(local: &Value, own: Option<Option<&Value>>) -> Option<&'static str> {
        closed(local, "science", own).map(|state| match state {
            QueueState::Missing(_) => "missing",
            QueueState::Inactive(_) => "inactive",
            QueueState::Unreadable(_) | QueueState::Open(_) => "open",
        })
    }

    #[test]
    fn closed_queues_are_recognized_without_reading_quota() {
        let local = json!({"metadata": {"name": "research"}, "spec": {"clusterQueue": "science"}});
        let held = json!({"metadata": {"name": "research"}, "spec": {"stopPolicy": "Hold"}});
        let orphan = json!({"metadata": {"name": "research"}, "status": {"conditions":
            [{"type": "Active", "status": "False", "reason": "ClusterQueueDoesNotExist"}]}});
        let own = json!({"metadata": {"name": "science"}, "spec": {}});
        let stopped = json!({"metadata": {"name": "science"}, "spec": {"stopPolicy": "Hold"}});
        for (local, own, expected) in [
            (&local, Some(Some(&own)), None),
            (&local, Some(Some(&stopped)), Some("inactive")),
            (&local, Some(None), Some("missing")),
            (&local, None, None),
            (&held, Some(Some(&own)), Some("inactive")),
            (&held, None, Some("inactive")),
            (&orphan, None, Some("missing")),
        ] {
            assert_eq!(state(local, own), expected, "{local} {own:?}");
        }
    }
}
