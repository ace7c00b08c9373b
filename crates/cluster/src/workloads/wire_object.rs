//! Decodes objects of the kinds that own pods.

use jiff::Timestamp;
use serde::Deserialize;

use super::custom_owners::reference;
use crate::transport::decode::{Condition, ObjectMetadata, PodSpec};
use crate::transport::lenient;
use gpuctl_core::model::GpuCount;
use gpuctl_core::model::contract::labels::{KUEUE_QUEUE, PAUSED};
use gpuctl_core::model::facts::workload::{OwnerObject, QUEUED, WorkloadState};
use gpuctl_core::model::values::omissions;
use gpuctl_core::model::values::omissions::Omission;
use gpuctl_core::model::values::units::MOST_PER_OWNER;

#[derive(Deserialize)]
pub(super) struct WireObject<'a> {
    #[serde(borrow, default)]
    pub(super) metadata: ObjectMetadata<'a>,
    #[serde(borrow, default)]
    spec: ObjectSpec<'a>,
    #[serde(borrow, default)]
    status: ObjectStatus<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectSpec<'a> {
    replicas: Option<u64>,
    parallelism: Option<u64>,
    suspend: bool,
    #[serde(borrow)]
    template: WireTemplate<'a>,
    /// Pod template of a CronJob.
    #[serde(borrow)]
    job_template: WireJobTemplate<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireJobTemplate<'a> {
    #[serde(borrow)]
    spec: WireJobSpec<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireJobSpec<'a> {
    parallelism: Option<u64>,
    #[serde(borrow)]
    template: WireTemplate<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireTemplate<'a> {
    #[serde(borrow)]
    spec: PodSpec<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectStatus<'a> {
    #[serde(borrow)]
    conditions: Vec<Condition<'a>>,
    #[serde(deserialize_with = "lenient::time")]
    start_time: Option<Timestamp>,
    #[serde(deserialize_with = "lenient::time")]
    completion_time: Option<Timestamp>,
    desired_number_scheduled: Option<u64>,
}

impl ObjectStatus<'_> {
    fn condition_that_holds(&self, kind: &str) -> Option<&Condition<'_>> {
        self.conditions
            .iter()
            .find(|condition| condition.kind == kind && condition.holds())
    }

    /// Returns the outcome of a Job, or `None` for other kinds and running Jobs.
    fn verdict(&self, kind: &str) -> Option<WorkloadState> {
        match kind {
            "Job" if self.condition_that_holds("Complete").is_some() => {
                Some(WorkloadState::Completed)
            }
            "Job" if self.condition_that_holds("Failed").is_some() => Some(WorkloadState::Failed),
            _ => None,
        }
    }
}

impl WireObject<'_> {
    /// Returns why the object has no pods now. `desired` is the number of pods that it requests.
    fn resting(&self, kind: &str, desired: u64) -> Option<&'static str> {
        let Self { metadata, spec, .. } = self;
        match kind {
            // Kueue suspends Jobs that it has not admitted. An annotation marks Jobs that a user
            // paused.
            "Job"
                if spec.suspend
                    && metadata.labels.contains_key(KUEUE_QUEUE)
                    && !metadata.annotations.contains_key(PAUSED) =>
            {
                Some(QUEUED)
            }
            "Job" | "CronJob" if spec.suspend => Some("Suspended"),
            "Deployment" | "StatefulSet" | "ReplicaSet" if desired == 0 => Some("ScaledToZero"),
            _ => None,
        }
    }

    pub(super) fn owner(&self, api: &str, kind: &str) -> OwnerObject {
        let Self {
            metadata,
            spec,
            status,
        } = self;
        let gpus_per_pod = spec
            .template
            .spec
            .devices()
            .saturating_add(spec.job_template.spec.template.spec.devices());
        let desired = match kind {
            "CronJob" => spec.job_template.spec.parallelism.unwrap_or(1),
            "Job" => spec.parallelism.unwrap_or(1),
            // The size of a DaemonSet is only in its status, because it depends on the number of
            // nodes.
            "DaemonSet" => status.desired_number_scheduled.unwrap_or(0),
            _ => spec.replicas.unwrap_or(1),
        };
        // An object scaled to zero does not have its earlier size, so report the requests of one
        // replica.
        let size = if desired == 0 { 1 } else { desired };
        let mut gpus = GpuCount(gpus_per_pod) * size;
        if gpus > GpuCount(MOST_PER_OWNER) || spec.template.spec.is_absurd() {
            omissions::note(
                Omission::AbsurdRequest,
                format!("{kind} {}/{}", metadata.namespace, metadata.name),
            );
            gpus = GpuCount::ZERO;
        }
        let failed_at = status
            .condition_that_holds("Failed")
            .and_then(|condition| condition.last_transition_time);
        OwnerObject {
            api_version: api.to_owned(),
            kind: kind.to_owned(),
            namespace: metadata.namespace.to_string(),
            name: metadata.name.to_string(),
            uid: metadata.uid.to_string(),
            parent: reference(metadata).map(|reference| reference.uid),
            created_at: metadata.creation_timestamp,
            started_at: status.start_time,
            ended_at: status.completion_time.or(failed_at),
            // A ReplicaSet of an earlier rollout, scaled to zero by its Deployment, requests
            // nothing.
            gpus: if kind == "ReplicaSet" && desired == 0 {
                GpuCount::ZERO
            } else {
                gpus
            },
            verdict: status.verdict(kind),
            resting: self.resting(kind, desired),
        }
    }
}
