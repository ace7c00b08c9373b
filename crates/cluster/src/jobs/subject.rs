//! Reads a pod or foreign workload that `why` explains, as a job with its pods. Also reads the
//! requests and volume claims of a pod without a node.

use std::collections::BTreeSet;

use futures::future::{join, join_all};
use jiff::Timestamp;
use serde_json::Value;

use super::owner::{OwnerKind, PodOwner};
use super::owner_object::WireOwner;
use crate::transport::decode::{ListPage, WirePod};
use crate::{Failure, handles::JobsApi, unless_forbidden};
use gpuctl_core::model::contract::labels::KUEUE_QUEUE;
use gpuctl_core::model::facts::workload::OwnerObject;
use gpuctl_core::model::{ClaimState, GroupVerdict, Job, Pod, PodPhase};

/// The fields of an unscheduled pod that determine where it can run.
pub struct UnplacedPod {
    pub name: String,
    /// `None` if the user cannot read the pod.
    pub spec: Option<Value>,
    pub created_at: Option<Timestamp>,
    pub nominated: Option<String>,
    /// A gang scheduler's verdict on the pod's group.
    pub group: Option<GroupVerdict>,
    /// Whether a controller has created the pod's device claims from their templates.
    pub claims_made: bool,
}

impl JobsApi<'_> {
    /// Reads a pod as a job with one pod.
    pub async fn pod_as_job(self, namespace: &str, name: &str) -> Result<Option<Job>, Failure> {
        let collection = format!("/api/v1/namespaces/{namespace}/pods");
        let Some(object) = self.0.find_in::<Value>(&collection, name).await? else {
            return Ok(None);
        };
        let text = object.to_string();
        let Ok(wire) = serde_json::from_str::<WirePod<'_>>(&text) else {
            return Ok(None);
        };
        Ok(Some(
            self.explained(job_from_pods(namespace, name, vec![wire.pod()]))
                .await,
        ))
    }

    /// Finds the workload with this name among the kinds that own pods. Returns it as a job, with
    /// the name of its kind.
    pub async fn workload_as_job(
        self,
        kind: Option<&str>,
        namespace: &str,
        name: &str,
    ) -> Result<Option<(Job, &'static str)>, Failure> {
        let is_requested =
            |owner: &OwnerKind| kind.is_none_or(|kind| owner.word().eq_ignore_ascii_case(kind));
        let kinds = OwnerKind::ALL.into_iter().filter(is_requested);
        let lookups = join_all(kinds.map(|owner| async move {
            let collection = owner.collection(Some(namespace));
            (
                owner,
                unless_forbidden(self.0.find_in::<Value>(&collection, name).await),
            )
        }));
        for (owner, answer) in lookups.await {
            let Some(object) = answer?.flatten() else {
                continue;
            };
            let text = object.to_string();
            let Ok(mut job) =
                serde_json::from_str::<WireOwner<'_>>(&text).map(|object| object.job(owner))
            else {
                continue;
            };
            let pod_owner = PodOwner::from_job(&job);
            job.pods = self
                .pods_where(namespace, |pod| {
                    PodOwner::from_metadata(&pod.metadata) == pod_owner
                })
                .await?;
            return Ok(Some((self.explained(job).await, owner.word())));
        }
        Ok(None)
    }

    /// Reads the pods with these names and the status of their owner as a job.
    pub async fn pods_as_job(
        self,
        owner: &OwnerObject,
        names: &BTreeSet<String>,
    ) -> Result<Job, Failure> {
        let pods = self.pods_where(&owner.namespace, |pod| {
            names.contains(pod.metadata.name.as_ref())
        });
        let (pods, object) = join(pods, self.0.workloads().owner_object(owner)).await;
        let mut job = job_from_pods(&owner.namespace, &owner.name, pods?);
        if let Some(object) = object {
            apply_conditions(&object, &mut job);
        }
        Ok(self.explained(job).await)
    }

    async fn pods_where(
        self,
        namespace: &str,
        filter: impl Fn(&WirePod<'_>) -> bool,
    ) -> Result<Vec<Pod>, Failure> {
        let mut pods = Vec::new();
        self.0
            .list(
                &format!("/api/v1/namespaces/{namespace}/pods"),
                &[],
                |page| {
                    let page: ListPage<WirePod<'_>> = page.objects()?;
                    pods.extend(
                        page.items
                            .iter()
                            .filter(|pod| filter(pod))
                            .map(WirePod::pod),
                    );
                    Ok(())
                },
            )
            .await?;
        Ok(pods)
    }

    async fn explained(self, job: Job) -> Job {
        let mut jobs = [job];
        self.explain_missing_pods(&mut jobs).await;
        self.explain_stuck_pods(&mut jobs).await;
        self.0.queues().explain_queues(&mut jobs).await;
        let [job] = jobs;
        job
    }

    /// Reads the first pod of the job that has no node.
    pub async fn unplaced(self, job: &Job) -> Result<Option<UnplacedPod>, Failure> {
        let is_waiting = |pod: &&Pod| pod.node.is_none() && !pod.ended() && !pod.deleting;
        let Some(pod) = job.current_pods().into_iter().find(is_waiting) else {
            return Ok(None);
        };
        let path = format!("/api/v1/namespaces/{}/pods/{}", job.namespace, pod.name);
        let unreadable_pod = || UnplacedPod {
            name: pod.name.clone(),
            created_at: pod.created_at,
            nominated: None,
            spec: None,
            group: None,
            claims_made: false,
        };
        let Some(answer) = unless_forbidden(self.0.find::<Value>(&path).await)? else {
            return Ok(Some(unreadable_pod()));
        };
        let Some(mut object) = answer else {
            return Ok(None);
        };
        let nominated = object
            .pointer("/status/nominatedNodeName")
            .and_then(Value::as_str);
        let nominated = nominated
            .filter(|node| !node.is_empty())
            .map(ToOwned::to_owned);
        let group = self.0.queues().group_verdict(&job.namespace, &object).await;
        let claims_made = object
            .pointer("/status/resourceClaimStatuses")
            .and_then(Value::as_array)
            .is_some_and(|claims| !claims.is_empty());
        Ok(Some(UnplacedPod {
            nominated,
            group,
            claims_made,
            spec: Some(object["spec"].take()),
            ..unreadable_pod()
        }))
    }

    /// Reads why a volume claim is not bound.
    pub async fn claim_state(self, namespace: &str, name: &str) -> ClaimState {
        let collection = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
        let claim = match self.0.find_in::<Value>(&collection, name).await {
            Ok(Some(claim)) => claim,
            Ok(None) => return ClaimState::Missing,
            Err(_) => return ClaimState::Unreadable,
        };
        if claim.pointer("/status/phase").and_then(Value::as_str) == Some("Bound") {
            return ClaimState::Bound;
        }
        let class = claim
            .pointer("/spec/storageClassName")
            .and_then(Value::as_str)
            .filter(|class| !class.is_empty());
        let (mut class_exists, mut with_first_pod) = (None, false);
        if let Some(class) = class
            && let Ok(class) = self
                .0
                .find_in::<Value>("/apis/storage.k8s.io/v1/storageclasses", class)
                .await
        {
            class_exists = Some(class.is_some());
            with_first_pod =
                class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer");
        }
        ClaimState::Unbound {
            class: class.map(ToOwned::to_owned),
            class_exists,
            with_first_pod,
        }
    }
}

/// Copies the status of a custom object to the job: its queue, whether it is suspended, and its
/// result.
pub(super) fn apply_conditions(object: &Value, job: &mut Job) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    job.uid = text(&object["metadata"]["uid"]);
    let labels = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    job.labels = labels
        .map(|(key, value)| (key.clone(), text(value)))
        .collect();
    job.queue = job.labels.get(KUEUE_QUEUE).cloned();
    job.queued = job.queue.is_some();
    // JobSets and Jobs have the field in `spec`, and Kubeflow's jobs in `spec.runPolicy`.
    job.suspended = ["/spec/suspend", "/spec/runPolicy/suspend"]
        .iter()
        .any(|field| object.pointer(field) == Some(&true.into()));
    let conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|condition| condition["status"] == "True");
    let mut conclusions: Vec<(&str, &Value)> = Vec::new();
    for condition in conditions {
        match condition["type"].as_str().unwrap_or_default() {
            "Failed" => conclusions.push(("Failed", condition)),
            // JobSet, Kubeflow and Job name a successful end differently.
            "Completed" | "Succeeded" | "Complete" => conclusions.push(("Complete", condition)),
            _ => {}
        }
    }
    let failed = matches!(
        object.pointer("/status/phase").and_then(Value::as_str),
        Some("Failed" | "Error")
    );
    if conclusions.is_empty() && !failed {
        return;
    }
    // Prefer the object's status to the pods' phases, because some pods may no longer exist. Prefer
    // a failed condition, because some kinds also set a completed condition after a failure.
    job.conditions.clear();
    let conclusion = conclusions
        .iter()
        .find(|(kind, _)| *kind == "Failed")
        .or(conclusions.first())
        .copied();
    let kind = if failed {
        "Failed"
    } else {
        conclusion.map_or("Failed", |(kind, _)| kind)
    };
    let condition = conclusion.map(|(_, condition)| condition);
    let text_of = |field: &str| {
        condition
            .map(|condition| text(&condition[field]))
            .unwrap_or_default()
    };
    job.finished_at = text_of("lastTransitionTime")
        .parse()
        .ok()
        .or(job.finished_at);
    job.conditions
        .insert(kind.to_owned(), (text_of("reason"), text_of("message")));
}

/// Builds a job from its pods, whose phases determine the outcome.
pub(super) fn job_from_pods(namespace: &str, name: &str, pods: Vec<Pod>) -> Job {
    let all_in = |phase: PodPhase| !pods.is_empty() && pods.iter().all(|pod| pod.phase == phase);
    let failed =
        pods.iter().any(|pod| pod.phase == PodPhase::Failed) && pods.iter().all(Pod::ended);
    let condition = if all_in(PodPhase::Succeeded) {
        Some("Complete")
    } else {
        failed.then_some("Failed")
    };
    let conditions = condition.map(|kind| (kind.to_owned(), (String::new(), String::new())));
    Job {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        display_name: name.to_owned(),
        uid: pods.first().map(|pod| pod.uid.clone()).unwrap_or_default(),
        created_at: pods.iter().filter_map(|pod| pod.created_at).min(),
        finished_at: pods
            .iter()
            .filter_map(|pod| pod.ended_at)
            .max()
            .filter(|_| condition.is_some()),
        deleting: !pods.is_empty() && pods.iter().all(|pod| pod.deleting),
        pods_wanted: u32::try_from(pods.len()).unwrap_or(u32::MAX),
        group_size: 1,
        gpus_per_pod: pods.first().map(|pod| pod.gpus).unwrap_or_default(),
        conditions: conditions.into_iter().collect(),
        pods,
        ..Job::default()
    }
}
