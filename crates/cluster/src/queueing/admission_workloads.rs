//! Decodes Kueue's Workloads: the quota that admitted jobs reserve, and the jobs that wait.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::admission_wire::{amount, condition, list};
use super::queues::text;
use crate::inventory::capacity::requests;
use gpuctl_core::model::counting::admission::{
    FlavorAmounts, FlavorResource, ReservedJob, WaitingJob,
};

/// The Workloads of a ClusterQueue and of its cohort.
#[derive(Debug, Default)]
pub(super) struct WorkloadFacts {
    pub reserved: Vec<ReservedJob>,
    pub waiting: Vec<WaitingJob>,
    /// Requested resources for which admitted jobs of the ClusterQueue have no quota.
    pub excluded_resources: BTreeSet<String>,
}

impl WorkloadFacts {
    /// Adds a Workload. `queues` are the LocalQueues of the ClusterQueue that admit jobs, as
    /// namespace and name.
    pub(super) fn add(
        &mut self,
        workload: &Value,
        cluster_queue: &str,
        queues: &BTreeSet<(String, String)>,
    ) {
        let holds = |kind: &str| condition(workload, kind).is_some_and(|it| it["status"] == "True");
        if holds("Finished") {
            return;
        }
        let has_quota = workload
            .pointer("/status/admission")
            .is_some_and(Value::is_object);
        if has_quota {
            if text(workload, "/status/admission/clusterQueue") == cluster_queue {
                self.excluded_resources.extend(excluded_resources(workload));
            }
            self.reserved.push(reserved(workload, holds("Evicted")));
            return;
        }
        let queue = (
            text(workload, "/metadata/namespace").to_owned(),
            text(workload, "/spec/queueName").to_owned(),
        );
        let is_active = workload.pointer("/spec/active") != Some(&Value::Bool(false));
        if is_active && queues.contains(&queue) {
            self.waiting.push(waiting(workload));
        }
    }
}

/// Returns the name of the object that Kueue admits, or of the Workload if it has no owner.
fn name(workload: &Value) -> String {
    let owners = || list(workload, "/metadata/ownerReferences");
    let owner = owners()
        .find(|owner| owner["controller"] == true)
        .or_else(|| owners().next());
    let name = owner.map_or_else(
        || text(workload, "/metadata/name"),
        |owner| text(owner, "/name"),
    );
    format!("{}/{name}", text(workload, "/metadata/namespace"))
}

fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

fn priority(workload: &Value) -> i64 {
    // Kueue treats a missing priority as 0 (pkg/util/priority).
    workload
        .pointer("/spec/priority")
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

fn reserved(workload: &Value, is_evicted: bool) -> ReservedJob {
    let mut usage = FlavorAmounts::new();
    for assignment in list(workload, "/status/admission/podSetAssignments") {
        for (resource, used) in assignment["resourceUsage"]
            .as_object()
            .into_iter()
            .flatten()
        {
            let flavor = assignment["flavors"].get(resource).and_then(Value::as_str);
            if let (Some(flavor), Some(used)) = (flavor, amount(used)) {
                *usage
                    .entry(FlavorResource::new(flavor, resource))
                    .or_default() += used;
            }
        }
    }
    let reservation = condition(workload, "QuotaReserved").filter(|it| it["status"] == "True");
    ReservedJob {
        name: name(workload),
        uid: text(workload, "/metadata/uid").to_owned(),
        cluster_queue: text(workload, "/status/admission/clusterQueue").to_owned(),
        priority: priority(workload),
        usage,
        reserved_at: reservation.and_then(|it| time(text(it, "/lastTransitionTime"))),
        is_evicted,
    }
}

fn waiting(workload: &Value) -> WaitingJob {
    let reservation = condition(workload, "QuotaReserved");
    WaitingJob {
        name: name(workload),
        priority: priority(workload),
        created: time(text(workload, "/metadata/creationTimestamp")),
        // Kueue writes the condition when it first fails to admit the job.
        is_tried: reservation.is_some_and(|it| !text(it, "/message").is_empty()),
    }
}

/// Returns the resources that an admitted Workload requests, but for which it uses no quota.
/// Kueue's configuration excludes them (`resources.excludeResourcePrefixes`).
fn excluded_resources(workload: &Value) -> BTreeSet<String> {
    let mut excluded = BTreeSet::new();
    for assignment in list(workload, "/status/admission/podSetAssignments") {
        let mut sets = list(workload, "/spec/podSets");
        let set = sets.find(|set| set["name"] == assignment["name"]);
        let is_empty = assignment["count"] == 0;
        let Some(spec) = set
            .filter(|_| !is_empty)
            .and_then(|set| set.pointer("/template/spec"))
        else {
            continue;
        };
        let is_excluded = |resource: &String| {
            resource != "pods" && assignment["resourceUsage"].get(resource).is_none()
        };
        let requested = requests(&json!({"spec": spec})).into_keys();
        excluded.extend(requested.filter(is_excluded));
    }
    excluded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(name: &str, spec: &Value, status: &Value) -> Value {
        json!({"metadata": {"name": format!("job-{name}"), "namespace": "n", "uid": name,
                "creationTimestamp": "2026-11-22T09:00:00Z",
                "ownerReferences": [{"kind": "Job", "name": name, "controller": true}]},
            "spec": spec, "status": status})
    }

    fn facts(workloads: &[Value]) -> WorkloadFacts {
        let mut facts = WorkloadFacts::default();
        let queues = BTreeSet::from([("n".to_owned(), "research".to_owned())]);
        for workload in workloads {
            facts.add(workload, "science", &queues);
        }
        facts
    }

    fn condition(kind: &str, status: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "message": message,
            "lastTransitionTime": "2026-11-22T10:00:00Z"})
    }

    /// The status is as Kueue 0.18.3 writes it.
    #[test]
    fn admitted_jobs_reserve_quota_by_flavor() {
        let template = json!({"spec": {"containers": [{"name": "main",
            "resources": {"requests": {"nvidia.com/gpu": "4", "cpu": "2"}}}]}});
        let spec = json!({"queueName": "research", "priority": 7,
            "podSets": [{"name": "main", "count": 2, "template": template}]});
        let status = json!({"conditions": [condition("QuotaReserved", "True", "")],
            "admission": {"clusterQueue": "science", "podSetAssignments": [{"name": "main", "count": 2,
                "flavors": {"nvidia.com/gpu": "gpus"}, "resourceUsage": {"nvidia.com/gpu": "8"}}]}});
        let facts = facts(&[workload("a", &spec, &status)]);
        let job = &facts.reserved[0];
        let usage = FlavorAmounts::from([(FlavorResource::new("gpus", "nvidia.com/gpu"), 8000)]);
        assert_eq!(
            (job.name.as_str(), job.priority, &job.usage),
            ("n/a", 7, &usage)
        );
        assert!(job.reserved_at.is_some() && !job.is_evicted);
        // The CPUs have no quota, although the job is admitted.
        assert_eq!(facts.excluded_resources, BTreeSet::from(["cpu".to_owned()]));
    }

    #[test]
    fn waiting_jobs_are_active_and_in_the_queue() {
        let tried = json!({"conditions": [condition("QuotaReserved", "False", "insufficient")]});
        let finished = json!({"conditions": [condition("Finished", "True", "done")]});
        let in_queue = json!({"queueName": "research"});
        let all = [
            workload("new", &in_queue, &json!({})),
            workload("tried", &in_queue, &tried),
            workload(
                "paused",
                &json!({"queueName": "research", "active": false}),
                &tried,
            ),
            workload("elsewhere", &json!({"queueName": "other"}), &tried),
            workload("finished", &in_queue, &finished),
        ];
        let facts = facts(&all);
        let waiting: Vec<(&str, bool)> = facts
            .waiting
            .iter()
            .map(|job| (job.name.as_str(), job.is_tried))
            .collect();
        assert_eq!(waiting, [("n/new", false), ("n/tried", true)]);
        assert!(facts.reserved.is_empty());
    }
}
