//! Decodes the object that owns the pods of a job.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use super::owner::{HOSTNAME, OwnerKind};
use crate::transport::decode::{Condition, ObjectMetadata, PodSpec, WireContainer};
use crate::transport::lenient;
use gpuctl_core::model::contract::labels::{
    DESCRIPTION, GPU_TYPE, KIND, KUEUE_PRIORITY, KUEUE_QUEUE, NAME, PAUSED, POOL_LABEL, REPLICAS,
    RETRIES, SOURCE, USER, VERSION, VOLCANO_QUEUE,
};
use gpuctl_core::model::{GpuCount, Job, RemoteRun};

/// Value of `spec.managedBy` for the Job controller of Kubernetes (batch/v1,
/// `JobControllerName`).
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";
/// Upper limit for the number of pods in the annotation of a paused service or notebook.
const MOST_RESUMED: u32 = 10_000;

#[derive(Deserialize)]
pub(crate) struct WireOwner<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
    #[serde(borrow, default)]
    spec: OwnerSpec<'a>,
    #[serde(borrow, default)]
    status: OwnerStatus<'a>,
}

/// The spec fields that gpuctl reads from Jobs, Deployments, StatefulSets and LeaderWorkerSets.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OwnerSpec<'a> {
    parallelism: u32,
    completions: Option<u32>,
    suspend: bool,
    /// Name of the controller that runs a Job's pods.
    managed_by: Option<String>,
    replicas: Option<u32>,
    #[serde(borrow)]
    template: JobTemplate<'a>,
    #[serde(borrow)]
    leader_worker_template: Option<GroupTemplate<'a>>,
}

/// Pod templates of a LeaderWorkerSet's replica. The leader answers requests.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct GroupTemplate<'a> {
    size: Option<u32>,
    #[serde(borrow)]
    leader_template: JobTemplate<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JobTemplate<'a> {
    #[serde(borrow)]
    spec: PodSpec<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OwnerStatus<'a> {
    #[serde(borrow)]
    conditions: Vec<Condition<'a>>,
    #[serde(deserialize_with = "lenient::time")]
    completion_time: Option<Timestamp>,
    succeeded: u32,
    active: u32,
    ready: Option<u32>,
    observed_generation: u64,
    /// Number of existing pods of a Deployment or StatefulSet.
    replicas: u32,
    /// Number of existing pods from the newest template.
    updated_replicas: u32,
}

impl<'a> OwnerSpec<'a> {
    /// Returns the pod template, or the leader's template of a LeaderWorkerSet.
    fn pod(&self) -> &PodSpec<'a> {
        let group = self.leader_worker_template.as_ref();
        group.map_or(&self.template.spec, |group| &group.leader_template.spec)
    }

    /// Returns the number of pods per replica.
    fn group_size(&self) -> u32 {
        let group = self.leader_worker_template.as_ref();
        group.and_then(|group| group.size).unwrap_or(1)
    }
}

impl OwnerStatus<'_> {
    /// Maps the type of each true condition to its reason and message.
    fn conditions_that_hold(&self) -> BTreeMap<String, (String, String)> {
        self.conditions
            .iter()
            .filter(|condition| condition.holds())
            .map(|condition| {
                (
                    condition.kind.to_string(),
                    (condition.reason.to_string(), condition.message.to_string()),
                )
            })
            .collect()
    }

    /// Returns when a Job that had been suspended was resumed.
    fn resumed_at(&self) -> Option<Timestamp> {
        let suspended = self
            .conditions
            .iter()
            .find(|condition| condition.kind == "Suspended" && condition.status == "False");
        suspended?.last_transition_time
    }

    fn finished_at(&self) -> Option<Timestamp> {
        let failed = self
            .conditions
            .iter()
            .find(|condition| condition.kind == "Failed" && condition.holds());
        self.completion_time
            .or_else(|| failed.and_then(|condition| condition.last_transition_time))
    }
}

impl WireOwner<'_> {
    /// Returns the number of pods that the job has while it runs, and whether it is paused.
    fn size(&self, owner: OwnerKind) -> (u32, bool) {
        let group_size = self.spec.group_size();
        match (owner, self.spec.replicas) {
            // gpuctl pauses a Job by setting the parallelism to 0 if the user may not write Kueue's
            // Workload.
            (OwnerKind::Job, _) => (
                // Without `completions`, a Job runs as many pods as its parallelism.
                self.spec.completions.unwrap_or(self.spec.parallelism),
                self.spec.suspend || self.spec.parallelism == 0,
            ),
            // Report the size that a paused service had before the pause.
            (_, Some(0)) => {
                let stored = self.metadata.annotations.get(REPLICAS);
                // Limit the stored size. Otherwise, a user with write access to the annotation
                // could make another user's `resume` create any number of pods.
                let replicas = stored
                    .and_then(|size| size.parse().ok())
                    .filter(|size| (1..=MOST_RESUMED).contains(size))
                    .unwrap_or(1_u32);
                (replicas.saturating_mul(group_size), true)
            }
            (_, replicas) => (replicas.unwrap_or(1).saturating_mul(group_size), false),
        }
    }

    /// Returns true while pods from an earlier template are being replaced.
    fn has_old_pods(&self) -> bool {
        self.status.observed_generation < self.metadata.generation
            || self.status.updated_replicas < self.spec.replicas.unwrap_or(1)
            || self.status.replicas > self.status.updated_replicas
    }

    /// Returns the status of a Job whose pods another cluster runs, such as those of MultiKueue.
    fn remote(&self) -> Option<RemoteRun> {
        let managed_by = self.spec.managed_by.clone();
        let managed_by = managed_by.filter(|name| name != JOB_CONTROLLER)?;
        Some(RemoteRun {
            managed_by,
            active: self.status.active,
            ready: self.status.ready,
            ..RemoteRun::default()
        })
    }

    pub(crate) fn job(&self, owner: OwnerKind) -> Job {
        let meta = &self.metadata;
        let label = |key: &str| meta.labels.get(key).cloned();
        let annotation = |key: &str| meta.annotations.get(key).cloned();
        let conditions = self.status.conditions_that_hold();
        let pod = self.spec.pod();
        let container = pod.containers.first();
        let requested = |name: &str| container?.resources.requested(name);
        let (pods_wanted, suspended) = self.size(owner);
        Job {
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            display_name: annotation(NAME).unwrap_or_else(|| meta.name.to_string()),
            uid: meta.uid.to_string(),
            kind: owner.job_kind(label(KIND).as_deref()),
            version: annotation(VERSION).unwrap_or_else(|| "v0.1".to_owned()),
            pool: label(POOL_LABEL),
            gpu_type: label(GPU_TYPE),
            user: annotation(USER).or_else(|| label(USER)),
            description: annotation(DESCRIPTION),
            labels: meta.labels.clone(),
            source: annotation(SOURCE),
            created_at: meta.creation_timestamp,
            // Jobs have no rollouts, and no `observedGeneration` in their status.
            rolling_out: match owner {
                OwnerKind::Job => false,
                OwnerKind::LeaderWorkerSet => conditions.contains_key("UpdateInProgress"),
                OwnerKind::Deployment | OwnerKind::StatefulSet => self.has_old_pods(),
            },
            owner_is_gone: false,
            start_failure: None,
            eviction: None,
            finished_at: self.status.finished_at(),
            resumed_at: self.status.resumed_at(),
            deleting: meta.deletion_timestamp.is_some(),
            suspended,
            queue: label(KUEUE_QUEUE).or_else(|| annotation(VOLCANO_QUEUE)),
            queued: meta.labels.contains_key(KUEUE_QUEUE),
            queue_verdict: None,
            queue_position: None,
            queue_priority: label(KUEUE_PRIORITY),
            remote: self.remote().filter(|_| owner == OwnerKind::Job),
            held: meta.annotations.contains_key(PAUSED),
            pods_wanted,
            group_size: self.spec.group_size(),
            pods_done: self.status.succeeded,
            retries: annotation(RETRIES)
                .and_then(|retries| retries.parse().ok())
                .unwrap_or(0),
            gpus_per_pod: GpuCount(pod.devices()),
            cpu: requested("cpu"),
            memory: requested("memory"),
            port: container
                .and_then(|container| container.ports.first())
                .map(|port| port.container_port),
            checked: container.is_some_and(WireContainer::is_checked),
            claims: pod.claim_names(),
            pinned: pod
                .node_selector
                .get(HOSTNAME)
                .cloned()
                .filter(|_| owner == OwnerKind::StatefulSet),
            on_host: pod.volumes.iter().any(|volume| volume.host_path.is_some()),
            create_failure: conditions
                .get("ReplicaFailure")
                .map(|(_, message)| message.clone()),
            conditions,
            pods: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::model::{State, Status};
    use serde_json::json;

    /// MultiKueue copies the status of the Job in the other cluster.
    #[test]
    fn a_job_of_another_cluster_has_the_state_of_its_status() {
        let job = |managed_by: &str| {
            let text = json!({"metadata": {"name": "t", "namespace": "a",
                    "labels": {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "high"}},
                "spec": {"parallelism": 2, "completions": 2, "managedBy": managed_by},
                "status": {"active": 2, "ready": 2}})
            .to_string();
            let owner: WireOwner<'_> = serde_json::from_str(&text).unwrap();
            owner.job(OwnerKind::Job)
        };
        let remote = job("kueue.x-k8s.io/multikueue");
        assert_eq!(State::from_job(&remote).status, Status::Running);
        assert_eq!(remote.queue_priority.as_deref(), Some("high"));
        let local = job("kubernetes.io/job-controller");
        assert_eq!(
            (State::from_job(&local).status, local.remote),
            (Status::Pending, None)
        );
    }
}
