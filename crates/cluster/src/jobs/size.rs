//! Scales, pauses and resumes jobs. A pause stores the job's size in an annotation, and pins a
//! notebook with node-local folders to its node.

use serde_json::{Value, json};

use super::owner::{HOSTNAME, OwnerKind};
use crate::write::apply::Deletion;
use crate::{Failure, handles::JobsApi};
use gpuctl_core::model::Job;
use gpuctl_core::model::contract::labels::REPLICAS;

impl JobsApi<'_> {
    fn owner_path(job: &Job) -> String {
        OwnerKind::for_job(job).path(&job.namespace, &job.name)
    }

    /// Suspends or resumes a training.
    pub async fn suspend(self, job: &Job, suspend: bool) -> Result<(), Failure> {
        self.0
            .writes()
            .merge_patch(
                &Self::owner_path(job),
                &json!({"spec": {"suspend": suspend}}),
            )
            .await
            .map(|_| ())
    }

    /// Sets the number of pods of a service or notebook.
    pub async fn scale(self, job: &Job, replicas: u32) -> Result<(), Failure> {
        let mut patch = json!({"spec": {"replicas": replicas}});
        // Store the current size, which `resume` restores.
        patch["metadata"]["annotations"][REPLICAS] = if replicas == 0 {
            job.replicas().to_string().into()
        } else {
            // In a merge patch, null removes the key (RFC 7396).
            Value::Null
        };
        if let Some(node) = job
            .pods
            .iter()
            .find_map(|pod| pod.node.as_ref())
            .filter(|_| replicas == 0 && stays(job))
        {
            let name = self.hostname(node).await;
            patch["spec"]["template"]["spec"]["nodeSelector"][HOSTNAME] = name.into();
        }
        self.0
            .writes()
            .merge_patch(&Self::owner_path(job), &patch)
            .await
            .map(|_| ())
    }

    /// Resumes a paused job. A service gets its earlier size. If `unpin` is set, the job can run on
    /// any node, otherwise only on its previous one.
    pub async fn resume(self, job: &Job, unpin: bool) -> Result<(), Failure> {
        if !job.kind.serves() {
            return self.suspend(job, false).await;
        }
        let mut patch = json!({"spec": {"replicas": job.replicas()}, "metadata": {"annotations": {REPLICAS: null}}});
        if unpin && job.pinned.is_some() {
            patch["spec"]["template"]["spec"]["nodeSelector"][HOSTNAME] = Value::Null;
        }
        self.0
            .writes()
            .merge_patch(&Self::owner_path(job), &patch)
            .await?;
        // Delete the pod: a StatefulSet does not replace a pod from an old template that never
        // became ready (kubernetes#67250).
        for pod in job.pods.iter().filter(|pod| unpin && pod.node.is_none()) {
            let path = format!("/api/v1/namespaces/{}/pods/{}", job.namespace, pod.name);
            self.0
                .writes()
                .delete_at(&path, Deletion::with_uid(&pod.uid))
                .await?;
        }
        Ok(())
    }

    /// Reads the node's host name label, which differs from the node's name on some clouds. Falls
    /// back to the name if the user cannot read nodes.
    async fn hostname(self, node: &str) -> String {
        let object: Option<Value> = self.0.find_in("/api/v1/nodes", node).await.ok().flatten();
        let label = object
            .as_ref()
            .and_then(|object| object["metadata"]["labels"][HOSTNAME].as_str());
        label.unwrap_or(node).to_owned()
    }
}

/// Returns true if the job is a notebook with files on its node.
fn stays(job: &Job) -> bool {
    job.kind == gpuctl_core::model::JobKind::Notebook && job.on_host
}
