//! Creates, reads and deletes the pod through which `cp` reads the claims of an ended job.

use serde_json::Value;

use super::owner::OwnerKind;
use crate::transport::decode::WirePod;
use crate::transport::refusal::unreadable_answer;
use crate::write::apply::Deletion;
use crate::{Failure, handles::JobsApi};
use gpuctl_core::model::{Job, Pod};
use gpuctl_manifest::render::Object;

fn path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

impl JobsApi<'_> {
    /// Reads the object that owns the job's pods. Returns `None` if it was deleted or replaced.
    pub async fn owner_object(self, job: &Job) -> Result<Option<Value>, Failure> {
        let path = OwnerKind::for_job(job).path(&job.namespace, &job.name);
        let object: Option<Value> = self.0.find(&path).await?;
        Ok(object.filter(|object| object["metadata"]["uid"] == job.uid))
    }

    /// Creates a pod whose name is unique. A pod that already has this name is therefore the same
    /// pod.
    pub async fn start_pod(self, pod: &Object) -> Result<(), Failure> {
        let namespace = pod.namespace().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        match self.0.writes().post(&path, &pod.body, false).await {
            // The response to an earlier attempt was lost.
            Err(failure) if failure.reason() == "AlreadyExists" => Ok(()),
            other => other.map(drop),
        }
    }

    /// Reads a pod, including the UID that its events refer to.
    pub async fn pod(self, namespace: &str, name: &str) -> Result<Option<Pod>, Failure> {
        let Some(object) = self.0.find::<Value>(&path(namespace, name)).await? else {
            return Ok(None);
        };
        let text = object.to_string();
        let pod: WirePod<'_> = serde_json::from_str(&text)
            .map_err(|error| unreadable_answer(&self.0.server, text.as_bytes(), &error))?;
        Ok(Some(pod.pod()))
    }

    /// Deletes a pod if it still exists.
    pub async fn remove_pod(self, namespace: &str, name: &str) -> Result<(), Failure> {
        let path = path(namespace, name);
        let deletion = self.0.writes().delete_at(&path, Deletion::default());
        deletion.await.map(drop)
    }
}
