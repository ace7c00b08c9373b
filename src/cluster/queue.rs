//! Pauses and resumes jobs that Kueue admits.
//!
//! Note: Kueue owns `spec.suspend` and reverts other writers; its own switch is on the Workload that it creates for each
//! job.

use serde_json::{Value, json};

use super::owner::OwnerKind;
use super::{Connection, Failure};
use crate::model::Job;
use crate::model::labels::PAUSED;

const GROUP: &str = "kueue.x-k8s.io";

impl Connection {
    /// Returns the path of the Workload of a job; `None` where Kueue serves none or has made none yet.
    async fn workload(&self, job: &Job) -> Result<Option<String>, Failure> {
        let Some(group) = self.find::<Value>(&format!("/apis/{GROUP}")).await? else { return Ok(None) };
        let Some(version) = group["preferredVersion"]["groupVersion"].as_str() else { return Ok(None) };
        let path = format!("/apis/{version}/namespaces/{}/workloads", job.namespace);
        let mut found = None;
        let listed = self
            .list(&path, &[], |page| {
                let page: Value = serde_json::from_slice(page)?;
                let ours = |workload: &&Value| {
                    let owners = workload["metadata"]["ownerReferences"].as_array();
                    owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == job.uid.as_str()))
                };
                let one = page["items"].as_array().and_then(|items| items.iter().find(ours).cloned());
                let name = one.as_ref().and_then(|workload| workload["metadata"]["name"].as_str());
                found = found.take().or_else(|| name.map(|name| format!("{path}/{name}")));
                Ok(())
            })
            .await;
        match listed {
            Err(failure) if failure.is_not_found() => Ok(None),
            other => other.map(|()| found),
        }
    }

    /// Takes a training out of its queue or puts it back, and writes on the job that this was a person's wish: otherwise
    /// it looks like one that waits. Without Kueue the job is suspended like any other.
    pub(crate) async fn hold(&self, job: &Job, held: bool) -> Result<(), Failure> {
        let mut patch = json!({"metadata": {"annotations": {PAUSED: held.then_some("true")}}});
        match self.workload(job).await? {
            Some(workload) => drop(self.merge_patch(&workload, &json!({"spec": {"active": !held}})).await?),
            None => patch["spec"]["suspend"] = held.into(),
        }
        self.merge_patch(&OwnerKind::of(job.kind).path(&job.namespace, &job.name), &patch).await.map(|_| ())
    }
}
