//! Removes pods so that their owners create new ones. The caller decides when that is necessary.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::owner::OwnerKind;
use crate::write::apply::Deletion;
use crate::{Failure, handles::JobsApi};
use gpuctl_core::model::contract::labels::RESTARTED;
use gpuctl_core::model::{Job, Pod};

/// Finalizer with which the Job controller keeps a pod until it has counted it.
const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

impl JobsApi<'_> {
    /// Evicts a pod. The pod gets its grace period, and the Job controller does not count this as a
    /// failure. A pod that no longer exists is not an error.
    pub async fn evict(self, namespace: &str, pod: &Pod) -> Result<(), Failure> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}/eviction", pod.name);
        // The API server answers 429 while a PodDisruptionBudget forbids the eviction. The
        // transport retries that like any other 429.
        match self.0.writes().post(&path, &eviction, false).await {
            Err(failure) if failure.is_not_found() || failure.is_other_uid() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Deletes a pod whose node does not respond. The Job controller keeps such a pod until the
    /// kubelet reports its end, so this also removes the controller's finalizer. The controller
    /// does not count a pod that disappears.
    pub async fn force_delete(self, namespace: &str, pod: &Pod) -> Result<(), Failure> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}", pod.name);
        self.0
            .writes()
            .delete_at(
                &path,
                Deletion {
                    uid: Some(&pod.uid),
                    // The kubelet cannot confirm the end of the containers, so do not wait for it.
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
        // A merge patch replaces the entire list, so it must repeat the finalizers that others set.
        let other_finalizers: Vec<&Value> = finalizers
            .filter(|finalizer| *finalizer != JOB_TRACKING)
            .collect();
        let patch = json!({"metadata": {"uid": pod.uid, "finalizers": other_finalizers}});
        match self.0.writes().merge_patch(&path, &patch).await {
            Err(failure) if failure.is_not_found() || failure.is_other_uid() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Replaces the pods of a service in the same way as a change to its template.
    pub async fn roll(self, job: &Job, now: Timestamp) -> Result<(), Failure> {
        // A changed annotation of the template starts a rollout. `kubectl rollout restart` works
        // the same way.
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
