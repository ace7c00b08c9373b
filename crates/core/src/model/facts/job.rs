//! A gpuctl job, as the cluster reports it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::job_pod::{Pod, PodPhase};
use super::queue::{Queue, QueuePosition, QueueSystem, QueueVerdict};
use crate::model::values::units::GpuCount;

/// The kind of a job.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum JobKind {
    #[default]
    Training,
    Inference,
    Notebook,
    Compute,
}

impl JobKind {
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// True for jobs that run until they are deleted: their pods serve and never complete.
    pub fn serves(self) -> bool {
        self != Self::Training
    }

    /// True for jobs whose number of pods is set by users or an autoscaler.
    pub fn is_replicated(self) -> bool {
        matches!(self, Self::Inference | Self::Compute)
    }

    /// The word in files, labels and JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A job: the object that owns its pods, and the pods.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub namespace: String,
    /// The object's name, called `jobId` in the contract.
    pub name: String,
    /// The name in the file. It differs only with `--generate-name`.
    pub display_name: String,
    pub uid: String,
    pub kind: JobKind,
    pub version: String,
    pub pool: Option<String>,
    pub gpu_type: Option<String>,
    /// Labels of the object.
    pub labels: BTreeMap<String, String>,
    /// `job.description` of the YAML.
    pub description: Option<String>,
    /// The user who submitted it, as named by the API server.
    pub user: Option<String>,
    /// The submitted YAML.
    pub source: Option<String>,
    pub created_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub deleting: bool,
    /// Paused by a user, or by Kueue: a suspended Job, or a service or notebook scaled to 0.
    pub suspended: bool,
    /// `job.queue`, of any queue system.
    pub queue: Option<String>,
    /// True when Kueue decides when it runs.
    pub queued: bool,
    /// Number of pods per replica: more than 1 for a service whose replicas span nodes.
    pub group_size: u32,
    /// Why its queue has not admitted it, if the queue reports it.
    pub queue_verdict: Option<QueueVerdict>,
    /// Its position in its queue, if the queue reports it.
    pub queue_position: Option<QueuePosition>,
    /// True when a user paused it although a queue manages it.
    pub held: bool,
    /// Number of pods that must run for the job to run; for a paused job, the number after it
    /// resumes.
    pub pods_wanted: u32,
    /// Pods that have succeeded, including deleted ones.
    pub pods_done: u32,
    /// Allowed retries of each pod.
    pub retries: u32,
    /// Devices per pod, whole or slices.
    pub gpus_per_pod: GpuCount,
    pub cpu: Option<String>,
    pub memory: Option<String>,
    /// The port on which its container listens.
    pub port: Option<u16>,
    /// True when a probe decides whether it is up; otherwise only its port shows it.
    pub checked: bool,
    /// PersistentVolumeClaims that its pods mount.
    pub claims: Vec<String>,
    /// The node that it must run on, because its files are stored there.
    pub pinned: Option<String>,
    /// True when it mounts directories of its node, which other nodes do not have.
    pub on_host: bool,
    /// Conditions of the owning object with status `True`: type → (reason, message).
    pub conditions: BTreeMap<String, (String, String)>,
    pub pods: Vec<Pod>,
    /// Why the owning object could not create pods, from its newest warning event.
    pub create_failure: Option<String>,
    /// Why a scheduled pod cannot start, from its newest warning event: (reason, message).
    pub start_failure: Option<(String, String)>,
    /// The kubelet's message when it evicts a pod that the API server still shows as running.
    pub eviction: Option<String>,
    /// True while the controller has not observed the newest specification, or while pods of an
    /// older one remain.
    pub rolling_out: bool,
    /// The owning object is deleted, and only terminating pods remain.
    pub owner_is_gone: bool,
}

impl Job {
    /// True while Kueue holds back the job, or a pod of a service, because it is not admitted yet
    /// or was evicted.
    pub fn waits_in_queue(&self) -> bool {
        let ended = ["Complete", "Failed"]
            .iter()
            .any(|kind| self.conditions.contains_key(*kind));
        let gated = |pod: &Pod| {
            !pod.deleting
                && pod
                    .unscheduled
                    .as_ref()
                    .is_some_and(|(reason, _)| reason == "SchedulingGated")
        };
        // Kueue gates the pods of services one by one, but suspends a training's Job as a whole.
        let held_back = if self.kind.serves() {
            self.pods.iter().any(gated)
        } else {
            self.suspended
        };
        self.queued && !self.held && !self.deleting && !ended && held_back
    }

    /// Explains why a job that its queue holds back does not run.
    pub(crate) fn queue_words(&self) -> String {
        let queue = self
            .queue
            .as_ref()
            .map_or("the queue".to_owned(), |queue| format!("queue {queue}"));
        match &self.queue_verdict {
            Some(verdict) => format!("{queue}: {}", verdict.message),
            None => format!("{queue} has not admitted it yet"),
        }
    }

    /// True for a pod that receives requests: the leader of its group, or any pod without a group.
    pub fn answers(pod: &Pod) -> bool {
        // LeaderWorkerSet gives the leader index 0.
        pod.group.is_none_or(|(_, number)| number == 0)
    }

    /// True for a pod that serves: it is ready, and so is the leader of its replica.
    pub(crate) fn serves_with(&self, pod: &Pod) -> bool {
        let leads = |other: &Pod| {
            other.ready
                && !other.deleting
                && other
                    .group
                    .zip(pod.group)
                    .is_some_and(|(a, b)| a == (b.0, 0))
        };
        pod.ready && !pod.deleting && (pod.group.is_none() || self.pods.iter().any(leads))
    }

    /// True for a job of this queue.
    pub fn is_in(&self, queue: &Queue) -> bool {
        self.queue.as_deref() == Some(queue.name.as_str())
            // Queues of Kueue and Volcano can have the same name.
            && self.queued == (queue.system == QueueSystem::Kueue)
            && queue
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == self.namespace)
    }

    /// The number of replicas: pods, or groups of pods.
    pub fn replicas(&self) -> u32 {
        self.pods_wanted / self.group_size.max(1)
    }

    /// The devices that the whole job requests, in any state.
    pub fn gpus(&self) -> GpuCount {
        self.gpus_per_pod * u64::from(self.pods_wanted)
    }

    /// The devices that the job holds now: those of bound pods that have not terminated.
    pub fn gpus_held(&self) -> GpuCount {
        self.pods
            .iter()
            .filter(|pod| pod.holds())
            .map(|pod| pod.gpus)
            .sum()
    }

    /// The start of its first pod. `status.startTime` of a Job is not used, because it is set while
    /// pods still wait.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.pods.iter().filter_map(|pod| pod.started_at).min()
    }

    /// The end of the job. The controller records it shortly after the last pod has succeeded, so
    /// until then the end of the last pod counts.
    pub fn ended_at(&self) -> Option<Timestamp> {
        let pods = self.current_pods();
        let succeeded = !self.kind.serves()
            && pods.len() as u64 >= u64::from(self.pods_wanted)
            && pods.iter().all(|pod| pod.phase == PodPhase::Succeeded);
        self.finished_at.or_else(|| {
            pods.iter()
                .filter_map(|pod| pod.ended_at)
                .max()
                .filter(|_| succeeded)
        })
    }

    /// The newest pod of each rank in rank order, and all pods without a rank.
    pub fn current_pods(&self) -> Vec<&Pod> {
        let mut pods: Vec<&Pod> = self.pods.iter().collect();
        pods.sort_by(|a, b| {
            (a.rank, &b.created_at, &a.name).cmp(&(b.rank, &a.created_at, &b.name))
        });
        let mut last = None;
        // The sort puts the newest pod of a rank first, so only the first one of each rank stays.
        pods.retain(|pod| pod.rank.is_none() || std::mem::replace(&mut last, pod.rank) != pod.rank);
        pods
    }
}
