//! A job of gpuctl, as the cluster reports it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::job_pod::{Pod, PodPhase};
use super::queue::{Queue, QueuePosition, QueueSystem, QueueVerdict};
use crate::model::values::units::GpuCount;

/// What a job is.
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

    /// Runs until it is deleted: its pods serve, and never complete.
    pub fn serves(self) -> bool {
        self != Self::Training
    }

    /// Has as many pods as somebody, or an autoscaler, decides.
    pub fn is_replicated(self) -> bool {
        matches!(self, Self::Inference | Self::Compute)
    }

    /// Returns the word in files, labels and JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A job: the object that owns its pods, and the pods.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub namespace: String,
    /// The object's name, the contract's `jobId`.
    pub name: String,
    /// The name in the file; differs only with `--generate-name`.
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
    /// Who submitted it, as the API server named them.
    pub user: Option<String>,
    /// The YAML that was submitted.
    pub source: Option<String>,
    pub created_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub deleting: bool,
    /// Somebody paused it: a suspended Job, a service or notebook of size 0.
    pub suspended: bool,
    /// `job.queue`, of any system.
    pub queue: Option<String>,
    /// True when Kueue decides when it runs.
    pub queued: bool,
    /// Pods of each replica: more than 1 for a service that spans nodes.
    pub group_size: u32,
    /// Why its queue does not let it run, where the queue tells.
    pub queue_verdict: Option<QueueVerdict>,
    /// Where it stands in its queue, where the queue tells.
    pub queue_position: Option<QueuePosition>,
    /// True when a person took it out of its queue.
    pub held: bool,
    /// Pods that have to run for the job to run; of a paused one, those that will.
    pub pods_wanted: u32,
    /// Pods that have succeeded, also those that are gone since.
    pub pods_done: u32,
    /// Retries that each pod may take.
    pub retries: u32,
    /// Devices, whole or slices, per pod.
    pub gpus_per_pod: GpuCount,
    pub cpu: Option<String>,
    pub memory: Option<String>,
    /// Where its container listens.
    pub port: Option<u16>,
    /// True when a check tells when it is up; without one only its port does.
    pub checked: bool,
    /// Claims that its pods mount.
    pub claims: Vec<String>,
    /// The node that it has to run on, because its files are there.
    pub pinned: Option<String>,
    /// True when it mounts folders of its node, which no other node has.
    pub on_host: bool,
    /// Conditions of the owning object that are true: type → (reason, message).
    pub conditions: BTreeMap<String, (String, String)>,
    pub pods: Vec<Pod>,
    /// Why the owning object could not make pods, from its newest warning event.
    pub create_failure: Option<String>,
    /// Why a pod that is placed cannot start, from its newest warning event: (reason, message).
    pub start_failure: Option<(String, String)>,
    /// Why its node evicts a pod that the API server still shows as running, in the kubelet's
    /// words.
    pub eviction: Option<String>,
    /// False while the controller has not seen the newest specification, or pods of an older one
    /// are left.
    pub rolling_out: bool,
    /// The owning object is gone; only pods that still end are left.
    pub owner_is_gone: bool,
}

impl Job {
    /// Returns true while Kueue holds the job, or a pod of a service, back: not admitted yet, or
    /// evicted.
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
        let held_back = if self.kind.serves() {
            self.pods.iter().any(gated)
        } else {
            self.suspended
        };
        self.queued && !self.held && !self.deleting && !ended && held_back
    }

    /// Returns why a job that its queue holds back does not run.
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

    /// Returns true for a pod that answers requests itself.
    pub fn answers(pod: &Pod) -> bool {
        pod.group.is_none_or(|(_, number)| number == 0)
    }

    /// Returns true for a pod that is of use: it is ready, and so is the pod that answers for its
    /// replica.
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

    /// Returns true for a job of this queue.
    pub fn is_in(&self, queue: &Queue) -> bool {
        self.queue.as_deref() == Some(queue.name.as_str())
            && self.queued == (queue.system == QueueSystem::Kueue)
            && queue
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == self.namespace)
    }

    /// Returns what a service is scaled in: its pods, or its groups of pods.
    pub fn replicas(&self) -> u32 {
        self.pods_wanted / self.group_size.max(1)
    }

    /// Returns what the job requests in all, in any state.
    pub fn gpus(&self) -> GpuCount {
        self.gpus_per_pod * u64::from(self.pods_wanted)
    }

    /// Returns what the job holds now: bound pods that have not ended.
    pub fn gpus_held(&self) -> GpuCount {
        self.pods
            .iter()
            .filter(|pod| pod.holds())
            .map(|pod| pod.gpus)
            .sum()
    }

    /// Returns when its first pod began to run; `status.startTime` of a Job is set while pods still
    /// wait.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.pods.iter().filter_map(|pod| pod.started_at).min()
    }

    /// Returns when it ended. The controller writes that down a moment after the last pod has
    /// succeeded.
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

    /// Returns the newest pod of each rank, in rank order; pods without a rank all.
    pub fn current_pods(&self) -> Vec<&Pod> {
        let mut pods: Vec<&Pod> = self.pods.iter().collect();
        pods.sort_by(|a, b| {
            (a.rank, &b.created_at, &a.name).cmp(&(b.rank, &a.created_at, &b.name))
        });
        let mut last = None;
        pods.retain(|pod| pod.rank.is_none() || std::mem::replace(&mut last, pod.rank) != pod.rank);
        pods
    }
}
