//! A gpuctl job, as the cluster reports it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::job_pod::{Pod, PodPhase};
use super::queue::{Queue, QueuePosition, QueueSystem, QueueVerdict, RemoteRun};
use crate::model::values::natural;
use crate::model::values::units::GpuCount;

/// Kind of a job.
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

    /// Returns true for kinds whose pods serve until the job is deleted and never complete.
    pub fn serves(self) -> bool {
        self != Self::Training
    }

    /// Returns true for kinds whose number of pods a user or an autoscaler sets.
    pub fn is_replicated(self) -> bool {
        matches!(self, Self::Inference | Self::Compute)
    }

    /// Returns the kind as it appears in files, labels and JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A job: the object that owns its pods, and the pods.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub namespace: String,
    /// Name of the owning object, called `jobId` in JSON.
    pub name: String,
    /// Name in the file, which differs from `name` only if `--generate-name` was used.
    pub display_name: String,
    pub uid: String,
    pub kind: JobKind,
    pub version: String,
    pub pool: Option<String>,
    pub gpu_type: Option<String>,
    /// Labels of the owning object.
    pub labels: BTreeMap<String, String>,
    /// `job.description` of the file.
    pub description: Option<String>,
    /// User who submitted the job, as the API server names them.
    pub user: Option<String>,
    /// The submitted YAML.
    pub source: Option<String>,
    pub created_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// When the Job was last resumed. Kueue resumes a Job to admit it.
    pub resumed_at: Option<Timestamp>,
    pub deleting: bool,
    /// True if a user or Kueue paused the job: its Job is suspended, or its service or notebook is
    /// scaled to 0.
    pub suspended: bool,
    /// `job.queue` of the file, for any queue system.
    pub queue: Option<String>,
    /// True if Kueue decides when the job runs.
    pub queued: bool,
    /// Number of pods per replica, which exceeds 1 only for services whose replicas span nodes.
    pub group_size: u32,
    /// Reason why the queue has not admitted the job, if the queue reports one.
    pub queue_verdict: Option<QueueVerdict>,
    /// Position of the job in its queue, if the queue reports one.
    pub queue_position: Option<QueuePosition>,
    /// Kueue's WorkloadPriorityClass, which orders the jobs of a queue.
    pub queue_priority: Option<String>,
    /// `None` if this cluster runs the pods.
    pub remote: Option<RemoteRun>,
    /// True if a user paused the job although a queue manages it.
    pub held: bool,
    /// Number of pods that must run for the job to count as running. For a paused job, the number
    /// of pods after resuming it.
    pub pods_wanted: u32,
    /// Number of pods that have succeeded, including deleted ones.
    pub pods_done: u32,
    /// Number of times that each pod may be retried.
    pub retries: u32,
    /// Number of devices or slices per pod.
    pub gpus_per_pod: GpuCount,
    pub cpu: Option<String>,
    pub memory: Option<String>,
    /// Port on which the main container listens.
    pub port: Option<u16>,
    /// True if a probe determines whether the job is up. Otherwise the port does.
    pub checked: bool,
    /// PersistentVolumeClaims that the pods mount.
    pub claims: Vec<String>,
    /// Node on which the job must run, because it stores the job's files.
    pub pinned: Option<String>,
    /// True if the job mounts directories of its node, which other nodes lack.
    pub on_host: bool,
    /// Conditions of the owning object with status `True`, as (reason, message) by type.
    pub conditions: BTreeMap<String, (String, String)>,
    pub pods: Vec<Pod>,
    /// Reason why the owning object could not create pods, from its newest warning event.
    pub create_failure: Option<String>,
    /// Reason and message why a scheduled pod cannot start, from its newest warning event.
    pub start_failure: Option<(String, String)>,
    /// Message of the kubelet about the eviction of a pod that the API server still shows as
    /// running.
    pub eviction: Option<String>,
    /// True while the controller has not observed the newest specification, or while pods with an
    /// older one exist.
    pub rolling_out: bool,
    /// True if the owning object was deleted and only terminating pods remain.
    pub owner_is_gone: bool,
}

impl Job {
    /// Returns true if Kueue holds back the job or a pod of a service, before its admission or
    /// after an eviction.
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
        // Kueue suspends the Job of a training as a whole, but gates the pods of a service one by
        // one.
        let held_back = if self.kind.serves() {
            self.pods.iter().any(gated)
        } else {
            self.suspended
        };
        self.queued && !self.held && !self.deleting && !ended && held_back
    }

    /// Explains why the queue holds back the job.
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

    /// Returns true for pods that receive requests: leaders of groups, and pods without a group.
    pub fn answers(pod: &Pod) -> bool {
        // LeaderWorkerSet gives index 0 to the leader.
        pod.group.is_none_or(|(_, number)| number == 0)
    }

    /// Returns true if a pod serves, which requires that both the pod and the leader of its replica
    /// are ready.
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

    /// Returns true if the job is in this queue.
    pub fn is_in(&self, queue: &Queue) -> bool {
        self.queue.as_deref() == Some(queue.name.as_str())
            // Queues of Kueue and of Volcano can have the same name.
            && self.queued == (queue.system == QueueSystem::Kueue)
            && queue
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == self.namespace)
    }

    /// Returns the number of replicas, which are single pods or groups of pods.
    pub fn replicas(&self) -> u32 {
        self.pods_wanted / self.group_size.max(1)
    }

    /// Returns the number of devices that all pods of the job request, in any state.
    pub fn gpus(&self) -> GpuCount {
        self.gpus_per_pod * u64::from(self.pods_wanted)
    }

    /// Returns the number of devices that the job holds now: those of bound pods that have not
    /// terminated.
    pub fn gpus_held(&self) -> GpuCount {
        self.pods
            .iter()
            .filter(|pod| pod.holds())
            .map(|pod| pod.gpus)
            .sum()
    }

    /// Returns the number of devices that the job still needs: those of pods without a node, and of
    /// pods that were not created yet. Zero if the job has ended or is being deleted.
    pub fn gpus_lacking(&self) -> GpuCount {
        let has_ended = ["Complete", "Failed"]
            .iter()
            .any(|kind| self.conditions.contains_key(*kind));
        if has_ended || self.deleting {
            return GpuCount::ZERO;
        }
        let current = self.current_pods();
        let missing = u64::from(self.pods_wanted).saturating_sub(current.len() as u64);
        let unplaced = current
            .iter()
            .filter(|pod| !pod.holds() && !pod.ended())
            .map(|pod| pod.gpus)
            .sum::<GpuCount>();
        unplaced + self.gpus_per_pod * missing
    }

    /// Returns the start time of the first pod. `status.startTime` of a Job is set even while its
    /// pods wait, so it is not used.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.pods.iter().filter_map(|pod| pod.started_at).min()
    }

    /// Returns the time at which the job ended. The controller records it shortly after the last
    /// pod has succeeded; until then, this is the end of the last pod.
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
        // For each rank, the newest pod comes first. Drop the others.
        pods.retain(|pod| pod.rank.is_none() || std::mem::replace(&mut last, pod.rank) != pod.rank);
        pods
    }
}
