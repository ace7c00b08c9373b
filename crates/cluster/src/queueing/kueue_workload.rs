//! Reads Kueue's status of jobs that wait in its queues, and pauses and resumes these jobs.
//!
//! Kueue owns `spec.suspend` of a job and reverts changes by other writers. Instead, gpuctl sets
//! `spec.active` of the Workload that Kueue creates for the job. Ordinary users of Kueue cannot
//! write Workloads.

use std::collections::{BTreeSet, HashMap};

use serde_json::json;

use super::kueue_wire::WireWorkload;
use crate::jobs::owner::OwnerKind;
use crate::transport::decode::ListPage;
use crate::{Failure, handles::QueuesApi};
use gpuctl_core::model::contract::labels::PAUSED;
use gpuctl_core::model::{Job, QueueVerdict};

const GROUP: &str = "kueue.x-k8s.io";

/// What the Workload of an owner contains.
#[derive(Default)]
struct OwnedWorkload {
    verdict: Option<QueueVerdict>,
    priority: Option<String>,
    cluster: Option<String>,
    candidates: Vec<String>,
}

/// Workloads by the UID of their owner.
#[derive(Default)]
struct Verdicts {
    of_owners: HashMap<String, OwnedWorkload>,
    /// NAMESPACE/NAME of each owner by its UID.
    names: HashMap<String, String>,
}

impl QueuesApi<'_> {
    /// Sets Kueue's verdict on each job that waits in its queues, and the cluster of each job that
    /// another cluster runs. Does nothing if the user cannot read Workloads.
    pub(crate) async fn explain_queues(self, jobs: &mut [Job]) {
        let needs_workload =
            |job: &Job| job.waits_in_queue() || (job.queued && job.remote.is_some());
        let queued = jobs.iter().filter(|job| needs_workload(job));
        let namespaces: BTreeSet<&str> = queued.map(|job| job.namespace.as_str()).collect();
        let Some(first) = namespaces.first() else {
            return;
        };
        let namespace = (namespaces.len() == 1).then_some(*first);
        let Ok(Some(Verdicts {
            mut of_owners,
            mut names,
        })) = self.verdicts(namespace).await
        else {
            return;
        };
        names.extend(
            jobs.iter()
                .map(|job| (job.uid.clone(), format!("{}/{}", job.namespace, job.name))),
        );
        for job in jobs.iter_mut().filter(|job| needs_workload(job)) {
            // Look up the pods too, because they own the Workload of a service.
            let owners = std::iter::once(&job.uid).chain(job.pods.iter().map(|pod| &pod.uid));
            let mut workloads = owners.filter_map(|uid| of_owners.remove(uid));
            let Some(first) = workloads.next() else {
                continue;
            };
            job.queue_priority = first.priority.or_else(|| job.queue_priority.take());
            if let Some(remote) = &mut job.remote {
                remote.cluster = first.cluster;
                remote.candidates = first.candidates;
            }
            let verdict = first
                .verdict
                .or_else(|| workloads.find_map(|workload| workload.verdict));
            job.queue_verdict = verdict
                .filter(|_| job.waits_in_queue())
                .map(|verdict| with_job_name(verdict, &names));
        }
        self.place_in_queues(jobs).await;
    }

    /// Reads the verdicts on all Workloads, or returns `None` if the cluster does not serve Kueue.
    async fn verdicts(self, namespace: Option<&str>) -> Result<Option<Verdicts>, Failure> {
        let Some(version) = self.kueue_version().await? else {
            return Ok(None);
        };
        let path = match namespace {
            Some(namespace) => format!("/apis/{version}/namespaces/{namespace}/workloads"),
            None => format!("/apis/{version}/workloads"),
        };
        let mut verdicts = Verdicts::default();
        self.0
            .list(&path, &[], |page| {
                let page: ListPage<WireWorkload<'_>> = page.objects()?;
                for workload in &page.items {
                    let Some(owner) = workload.metadata.controller() else {
                        continue;
                    };
                    // A service can have one Workload per replica. Use the verdict of a waiting
                    // one.
                    let verdict = workload.status.verdict(workload.spec.active);
                    verdicts.names.insert(
                        owner.uid.clone(),
                        format!("{}/{}", workload.metadata.namespace, owner.name),
                    );
                    let existing = verdicts.of_owners.entry(owner.uid.clone()).or_default();
                    let status = &workload.status;
                    existing.verdict = existing.verdict.take().or(verdict);
                    existing.priority = workload.spec.queue_priority();
                    existing.cluster.clone_from(&status.cluster_name);
                    existing
                        .candidates
                        .clone_from(&status.nominated_cluster_names);
                }
                Ok(())
            })
            .await?;
        Ok(Some(verdicts))
    }

    /// Returns the group and version of Kueue's kinds, or `None` if the cluster does not serve
    /// them.
    pub(super) async fn kueue_version(self) -> Result<Option<String>, Failure> {
        self.0.discovery().preferred_version(GROUP).await
    }

    /// Returns the path of a job's Workload and whether it is active. Returns `None` if the cluster
    /// does not serve Kueue or Kueue has not created the Workload yet.
    async fn workload(self, job: &Job) -> Result<Option<(String, bool)>, Failure> {
        let Some(version) = self.kueue_version().await? else {
            return Ok(None);
        };
        let path = format!("/apis/{version}/namespaces/{}/workloads", job.namespace);
        let mut workload = None;
        let result = self
            .0
            .list(&path, &[], |page| {
                let page: ListPage<WireWorkload<'_>> = page.objects()?;
                let is_owned = |candidate: &&WireWorkload<'_>| {
                    candidate
                        .metadata
                        .owner_references
                        .iter()
                        .any(|owner| owner.uid == job.uid)
                };
                let matching = page.items.iter().find(is_owned).map(|candidate| {
                    (
                        format!("{path}/{}", candidate.metadata.name),
                        candidate.spec.active,
                    )
                });
                workload = workload.take().or(matching);
                Ok(())
            })
            .await;
        match result {
            Err(failure) if failure.is_not_found() => Ok(None),
            result => result.map(|()| workload),
        }
    }

    /// Pauses a training by taking it out of its queue, and annotates the job, which would
    /// otherwise look like one that waits. If the user may not write the Workload, sets the
    /// parallelism to 0: Kueue then stops the job and admits it again without quota. Without Kueue,
    /// suspends the job.
    pub async fn hold(self, job: &Job) -> Result<(), Failure> {
        let deactivated = match self.workload(job).await {
            Ok(Some((path, _))) => self
                .0
                .writes()
                .merge_patch(&path, &json!({"spec": {"active": false}}))
                .await
                .map(Some),
            Ok(None) => Ok(None),
            Err(failure) => Err(failure),
        };
        let spec = match deactivated {
            // Kueue suspends a job whose Workload is inactive.
            Ok(Some(_)) => json!({}),
            Ok(None) => json!({"suspend": true}),
            Err(failure) if failure.is_forbidden() => json!({"parallelism": 0}),
            Err(failure) => return Err(failure),
        };
        let patch = json!({"metadata": {"annotations": {PAUSED: "true"}}, "spec": spec});
        self.0
            .writes()
            .merge_patch(
                &OwnerKind::for_job(job).path(&job.namespace, &job.name),
                &patch,
            )
            .await
            .map(|_| ())
    }

    /// Returns a paused training to its queue, whichever way `hold` paused it.
    pub async fn requeue(self, job: &Job) -> Result<(), Failure> {
        let workload = match self.workload(job).await {
            Err(failure) if failure.is_forbidden() => Some((String::new(), true)),
            other => other?,
        };
        // Keep the job suspended until Kueue admits it. Otherwise its pods would start before Kueue
        // knows how many they are.
        let spec = json!({"parallelism": job.pods_wanted, "suspend": workload.is_some()});
        let patch = json!({"metadata": {"annotations": {PAUSED: null}}, "spec": spec});
        self.0
            .writes()
            .merge_patch(
                &OwnerKind::for_job(job).path(&job.namespace, &job.name),
                &patch,
            )
            .await?;
        // Activate the Workload last, so that Kueue does not admit the job before its parallelism
        // is restored.
        match workload {
            Some((path, false)) => self
                .0
                .writes()
                .merge_patch(&path, &json!({"spec": {"active": true}}))
                .await
                .map(drop),
            _ => Ok(()),
        }
    }
}

/// Replaces `a workload (UID: …, JobUID: …)` in a message with the job's name.
fn with_job_name(verdict: QueueVerdict, names: &HashMap<String, String>) -> QueueVerdict {
    let matched = names
        .iter()
        .find(|(uid, _)| !uid.is_empty() && verdict.message.contains(&format!("JobUID: {uid}")));
    let Some((uid, name)) = matched else {
        return verdict;
    };
    let Some((before, after)) = verdict.message.split_once(&format!("JobUID: {uid}")) else {
        return verdict;
    };
    let before = before.rsplit_once('(').map_or(before, |(before, _)| before);
    let after = after.split_once(')').map_or(after, |(_, after)| after);
    QueueVerdict {
        message: format!("{before}(job {name}){after}"),
        ..verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::kueue_wire::WorkloadStatus;
    use serde_json::Value;

    fn verdict(conditions: &Value) -> Option<(String, String)> {
        let text = json!({"conditions": conditions}).to_string();
        let status: WorkloadStatus<'_> = serde_json::from_str(&text).unwrap();
        status
            .verdict(true)
            .map(|verdict| (verdict.reason, verdict.message))
    }

    #[test]
    fn workloads_name_what_holds_them_back() {
        let read = |text: &Value| {
            let text = text.to_string();
            let workload: WireWorkload<'_> = serde_json::from_str(&text).unwrap();
            let verdict = workload.status.verdict(workload.spec.active);
            (verdict, workload.spec.queue_priority())
        };
        let class =
            json!({"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "urgent"});
        let conditions = json!([
            {"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota", "message": "now."},
            {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "before."}]);
        let (verdict, priority) = read(&json!({"spec": {"priorityClassRef": class},
            "status": {"conditions": conditions}}));
        let verdict = verdict.unwrap();
        let current = Some(("WaitingForQuota".to_owned(), "now".to_owned()));
        assert_eq!(
            (verdict.reason.as_str(), verdict.current),
            ("Preempted", current)
        );
        assert_eq!(priority.as_deref(), Some("urgent"));
        // v1beta1, and the class of the pods.
        let source = "kueue.x-k8s.io/workloadpriorityclass";
        let old = json!({"spec": {"priorityClassName": "low", "priorityClassSource": source}});
        assert_eq!(read(&old).1.as_deref(), Some("low"));
        let pods = json!({"spec": {"priorityClassRef":
            {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}}});
        assert_eq!(read(&pods).1, None);
        let checks = json!([{"name": "dws", "state": "Pending", "message": "no capacity"},
            {"name": "budget", "state": "Ready", "message": ""}]);
        let reserved =
            json!([{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}]);
        let (verdict, _) = read(
            &json!({"status": {"conditions": reserved, "admissionChecks": checks,
            "nominatedClusterNames": ["a", "b"]}}),
        );
        let verdict = verdict.unwrap();
        assert_eq!(
            (
                verdict.reason.as_str(),
                verdict.message.as_str(),
                verdict.checks.len()
            ),
            (
                "AdmissionChecks",
                "quota is reserved; waiting for checks: dws is pending: no capacity",
                1
            )
        );
    }

    /// The conditions are as Kueue 0.18.3 writes them.
    #[test]
    fn kueue_messages_are_kept() {
        let unmet = |reason: &str, message: &str| json!({"type": "QuotaReserved", "status": "False", "reason": reason, "message": message});
        let met = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message});
        let expected = |reason: &str, message: &str| Some((reason.to_owned(), message.to_owned()));
        let quota = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor gpus, 3 more needed";
        assert_eq!(
            verdict(&json!([unmet("Pending", quota)])),
            expected("Pending", quota)
        );
        let missing_queue = "LocalQueue nosuch doesn't exist";
        assert_eq!(
            verdict(&json!([unmet("Inadmissible", missing_queue)])),
            expected("Inadmissible", missing_queue)
        );
        let preempted = "Preempted to accommodate a workload (UID: a, JobUID: b) due to prioritization in the ClusterQueue";
        let conditions = json!([
            unmet("Pending", quota),
            met("Evicted", "Preempted", "short"),
            met("Preempted", "InClusterQueue", preempted)
        ]);
        assert_eq!(
            verdict(&conditions),
            expected("Preempted", &format!("{preempted}; now {quota}"))
        );
        let resumed = json!([
            unmet("Pending", quota),
            met("Evicted", "Deactivated", "The workload is deactivated")
        ]);
        assert_eq!(verdict(&resumed), expected("Pending", quota));
        let evicted = json!([
            unmet("Pending", "The workload is deactivated"),
            met("Evicted", "PodsReadyTimeout", "The workload is deactivated")
        ]);
        assert_eq!(
            verdict(&evicted),
            expected("PodsReadyTimeout", "The workload is deactivated")
        );
        let reserved = json!([met("QuotaReserved", "QuotaReserved", "")]);
        assert_eq!(
            verdict(&reserved),
            expected("AdmissionChecks", "quota is reserved; admission follows")
        );
        assert_eq!(
            verdict(&json!([
                met("QuotaReserved", "x", ""),
                met("Admitted", "x", "")
            ])),
            None
        );
        assert_eq!(verdict(&json!([])).unwrap().0, "Pending");
        let given = QueueVerdict {
            message: preempted.to_owned(),
            ..QueueVerdict::default()
        };
        assert_eq!(
            with_job_name(given, &HashMap::from([("b".to_owned(), "x/y".to_owned())])).message,
            "Preempted to accommodate a workload (job x/y) due to prioritization in the ClusterQueue"
        );
    }
}
