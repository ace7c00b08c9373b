//! Deletes pods so that their owners create new ones. The caller decides which pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::owner::OwnerKind;
use crate::write::apply::Deletion;
use crate::{Failure, handles::JobsApi};
use gpuctl_core::model::contract::labels::RESTARTED;
use gpuctl_core::model::{Job, Pod};

/// Finalizer that the Job controller sets on each pod and removes after counting it.
const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

impl JobsApi<'_> {
    /// Evicts a pod if it still exists. The pod gets its grace period, and the Job controller does
    /// not count the eviction as a failure.
    pub async fn evict(self, namespace: &str, pod: &Pod) -> Result<(), Failure> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}/eviction", pod.name);
        // A PodDisruptionBudget that forbids the eviction causes a 429, which the transport retries
        // like any other 429.
        match self.0.writes().post(&path, &eviction, false).await {
            Err(failure) if failure.is_not_found() || failure.is_other_uid() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Deletes a pod whose node does not respond. Also removes the Job controller's finalizer,
    /// which otherwise keeps the pod until the kubelet reports its end. The controller does not
    /// count pods that disappear.
    pub async fn force_delete(self, namespace: &str, pod: &Pod) -> Result<(), Failure> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}", pod.name);
        self.0
            .writes()
            .delete_at(
                &path,
                Deletion {
                    uid: Some(&pod.uid),
                    // Skip the grace period: the kubelet cannot confirm that the containers ended.
                    force: true,
                    version: None,
                },
            )
            .await?;
        let Some(pod_object) = self
            .0
            .find::<Value>(&path)
            .await?
            .filter(|object| object["metadata"]["uid"] == pod.uid)
        else {
            return Ok(());
        };
        let finalizers = pod_object["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten();
        // A merge patch replaces the entire list, so repeat the finalizers of other controllers.
        let other_finalizers: Vec<&Value> = finalizers
            .filter(|finalizer| *finalizer != JOB_TRACKING)
            .collect();
        let patch = json!({"metadata": {"uid": pod.uid, "finalizers": other_finalizers}});
        match self.0.writes().merge_patch(&path, &patch).await {
            Err(failure) if failure.is_not_found() || failure.is_other_uid() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Replaces the pods of a service, as a change to its template would.
    pub async fn roll(self, job: &Job, now: Timestamp) -> Result<(), Failure> {
        // Like `kubectl rollout restart`, start a rollout by changing an annotation of the
        // template.
        let template = json!({"metadata": {"annotations": {RESTARTED: now.to_string()}}});
        let patch = match OwnerKind::for_job(job) {
            OwnerKind::LeaderWorkerSet => {
                json!({"spec": {"leaderWorkerTemplate": {"leaderTemplate": template, "workerTemplate": template}}})
            }
            _ => json!({"spec": {"template": template}}),
        };
        self.0
            .writes()
            .merge_patch(
                &OwnerKind::for_job(job).path(&job.namespace, &job.name),
                &patch,
            )
            .await
            .map(drop)
    }
}
