//! A gpuctl job, as the cluster reports it.

use crate::model::values::natural;
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

    /// True for kinds of jobs that run until they are deleted, because their pods serve and never
    /// complete.
    pub fn serves(self) -> bool {
        self != Self::Training
    }

    /// True for kinds of jobs whose number of pods is set by a user or an autoscaler.
    pub fn is_replicated(self) -> bool {
        matches!(self, Self::Inference | Self::Compute)
    }

    /// The name of the kind in files, labels and JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A job: its pods, and the object that owns them.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub namespace: String,
    /// The object's name, called `jobId` in the contract.
    pub name: String,
    /// The name in the file. It differs from `name` only if `--generate-name` was used.
    pub display_name: String,
    pub uid: String,
    pub kind: JobKind,
    pub version: String,
    pub pool: Option<String>,
    pub gpu_type: Option<String>,
    /// Labels of the object.
    pub labels: BTreeMap<String, String>,
    /// The value of `job.description` in the YAML.
    pub description: Option<String>,
    /// The user who submitted the job, under the name that the API server uses.
    pub user: Option<String>,
    /// The submitted YAML.
    pub source: Option<String>,
    pub created_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub deleting: bool,
    /// True if a user or Kueue paused the job. Its Job is then suspended, or its service or
    /// notebook is scaled to 0.
    pub suspended: bool,
    /// The value of `job.queue`, for any queue system.
    pub queue: Option<String>,
    /// True if Kueue decides when the job runs.
    pub queued: bool,
    /// The number of pods per replica. It is more than 1 for a service whose replicas span several
    /// nodes.
    pub group_size: u32,
    /// Why the queue has not admitted the job, if the queue reports it.
    pub queue_verdict: Option<QueueVerdict>,
    /// The job's position in its queue, if the queue reports it.
    pub queue_position: Option<QueuePosition>,
    /// True if a user paused the job although a queue manages it.
    pub held: bool,
    /// The number of pods that must run so that the job counts as running. For a paused job, it is
    /// the number of pods after the pause.
    pub pods_wanted: u32,
    /// The number of pods that have succeeded, including deleted ones.
    pub pods_done: u32,
    /// How often each pod may be retried.
    pub retries: u32,
    /// The number of devices per pod, either whole devices or slices.
    pub gpus_per_pod: GpuCount,
    pub cpu: Option<String>,
    pub memory: Option<String>,
    /// The port on which its container listens.
    pub port: Option<u16>,
    /// True if a probe decides whether the job is up. Without a probe, only its port shows it.
    pub checked: bool,
    /// PersistentVolumeClaims that its pods mount.
    pub claims: Vec<String>,
    /// The node on which the job must run, because its files are stored there.
    pub pinned: Option<String>,
    /// True if the job mounts directories of its node, which other nodes do not have.
    pub on_host: bool,
    /// The conditions of the owning object whose status is `True`. The key is the type, and the
    /// value is (reason, message).
    pub conditions: BTreeMap<String, (String, String)>,
    pub pods: Vec<Pod>,
    /// Why the owning object could not create pods, according to its newest warning event.
    pub create_failure: Option<String>,
    /// Why a scheduled pod cannot start, according to its newest warning event, as (reason,
    /// message).
    pub start_failure: Option<(String, String)>,
    /// The kubelet's message about the eviction of a pod that the API server still shows as
    /// running.
    pub eviction: Option<String>,
    /// True while the controller has not observed the newest specification, or while pods with an
    /// older one remain.
    pub rolling_out: bool,
    /// True if the owning object is deleted and only terminating pods remain.
    pub owner_is_gone: bool,
}

impl Job {
    /// Whether Kueue holds back the job, or a pod of a service. Either it is not admitted yet, or
    /// it was evicted.
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
        // Kueue gates the pods of a service one by one. It suspends a training's Job as a whole.
        let held_back = if self.kind.serves() {
            self.pods.iter().any(gated)
        } else {
            self.suspended
        };
        self.queued && !self.held && !self.deleting && !ended && held_back
    }

    /// Explains why a job does not run that is held back by its queue.
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

    /// Whether a pod receives requests. This is the case for the leader of a group and for any pod
    /// without a group.
    pub fn answers(pod: &Pod) -> bool {
        // LeaderWorkerSet gives the leader index 0.
        pod.group.is_none_or(|(_, number)| number == 0)
    }

    /// Whether a pod serves: it must be ready, and so must the leader of its replica.
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

    /// Whether the job is in this queue.
    pub fn is_in(&self, queue: &Queue) -> bool {
        self.queue.as_deref() == Some(queue.name.as_str())
            // A queue of Kueue and a queue of Volcano can have the same name.
            && self.queued == (queue.system == QueueSystem::Kueue)
            && queue
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == self.namespace)
    }

    /// Returns the number of replicas. A replica is a pod or a group of pods.
    pub fn replicas(&self) -> u32 {
        self.pods_wanted / self.group_size.max(1)
    }

    /// Returns the number of devices that the whole job requests, whatever its state.
    pub fn gpus(&self) -> GpuCount {
        self.gpus_per_pod * u64::from(self.pods_wanted)
    }

    /// Returns the number of devices that the job holds now, which are those of bound pods that
    /// have not terminated.
    pub fn gpus_held(&self) -> GpuCount {
        self.pods
            .iter()
            .filter(|pod| pod.holds())
            .map(|pod| pod.gpus)
            .sum()
    }

    /// Returns the time at which the first pod started. `status.startTime` of a Job is not used,
    /// because it is set while pods still wait.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.pods.iter().filter_map(|pod| pod.started_at).min()
    }

    /// Returns the time at which the job ended. The controller records it shortly after the last
    /// pod has succeeded. Until then, the end of the last pod is used.
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

    /// Returns the newest pod of each rank, ordered by rank, and all pods without a rank.
    pub fn current_pods(&self) -> Vec<&Pod> {
        let mut pods: Vec<&Pod> = self.pods.iter().collect();
        pods.sort_by(|a, b| {
            let order = (a.rank, b.created_at).cmp(&(b.rank, a.created_at));
            order.then_with(|| natural::compare(&a.name, &b.name))
        });
        let mut last = None;
        // The newest pod of each rank comes first, so keep only the first pod of each rank.
        pods.retain(|pod| pod.rank.is_none() || std::mem::replace(&mut last, pod.rank) != pod.rank);
        pods
    }
}
