//! A job of gpuctl and its pods, as the cluster reports them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use super::queue::{Queue, QueuePosition, QueueSystem, QueueVerdict};
use crate::model::contract::labels::TERMINATION_PREFIX;
use crate::model::values::units::GpuCount;

/// The container that gpuctl makes in every pod.
pub const OWN_CONTAINER: &str = "main";

/// What a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    #[default]
    Training,
    Inference,
    Notebook,
    Compute,
}

impl JobKind {
    pub const ALL: [Self; 4] = [
        Self::Training,
        Self::Inference,
        Self::Notebook,
        Self::Compute,
    ];

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
        match self {
            Self::Training => "training",
            Self::Inference => "inference",
            Self::Notebook => "notebook",
            Self::Compute => "compute",
        }
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for JobKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.word() == text)
            .ok_or(())
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

/// A pod's phase in Kubernetes' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PodPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

impl PodPhase {
    /// Whether no container of the pod will run again.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A pod of a job.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub name: String,
    pub uid: String,
    /// Its index in an Indexed Job.
    pub rank: Option<u32>,
    /// The replica that it is of and its number in it, where a replica is several pods; number 0
    /// answers requests.
    pub group: Option<(u32, u32)>,
    /// The version of the template that it was made from, where a controller replaces pods by newer
    /// ones.
    pub revision: Option<String>,
    pub node: Option<String>,
    /// The node's address, where node ports answer.
    pub host_ip: Option<String>,
    pub phase: PodPhase,
    pub deleting: bool,
    pub created_at: Option<Timestamp>,
    /// When its first container began to run.
    pub started_at: Option<Timestamp>,
    /// When its last container ended, of those that have.
    pub ended_at: Option<Timestamp>,
    pub ready: bool,
    pub gpus: GpuCount,
    /// Why the scheduler has not placed it: (reason, message).
    pub unscheduled: Option<(String, String)>,
    /// Its node does not answer: it was marked not ready although its containers were when last
    /// heard of.
    pub silent: bool,
    /// The reason of a DisruptionTarget condition: somebody else ended it.
    pub disrupted: Option<String>,
    pub reason: Option<String>,
    /// What the kubelet says of an eviction.
    pub message: Option<String>,
    pub containers: Vec<Container>,
}

impl Pod {
    /// Returns true while bound to a node and not ended: its devices are taken, also while it pulls
    /// its image or terminates.
    pub fn holds(&self) -> bool {
        self.node.is_some() && !self.ended()
    }

    pub fn ended(&self) -> bool {
        self.phase.has_ended()
    }

    /// Returns true when its node does not answer.
    pub fn is_lost(&self) -> bool {
        // A pod that the taint manager deletes stays until its node answers.
        let given_up = self.deleting && self.disrupted.as_deref() == Some("DeletionByTaintManager");
        self.node.is_some() && (self.phase == PodPhase::Unknown || self.silent || given_up)
    }

    /// Returns the container that runs the job; the kubelet sorts them by name, and a sidecar may
    /// come first.
    pub fn own_container(&self) -> &str {
        let own = self
            .containers
            .iter()
            .find(|container| container.name == OWN_CONTAINER);
        own.or(self.containers.first())
            .map_or(OWN_CONTAINER, |container| container.name.as_str())
    }

    /// Returns true when the job's own container has ended, whatever sidecars do.
    pub fn own_ended(&self) -> bool {
        self.containers
            .iter()
            .any(|container| container.name == OWN_CONTAINER && container.terminated.is_some())
    }

    /// Returns a container that keeps a pod alive whose own one has ended.
    pub fn sidecar_left(&self) -> Option<&str> {
        let left = self.containers.iter().find(|container| container.running)?;
        (self.own_ended() && self.phase == PodPhase::Running).then_some(left.name.as_str())
    }

    pub fn restarts(&self) -> u32 {
        self.containers
            .iter()
            .map(|container| container.restarts)
            .fold(0, u32::saturating_add)
    }
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerEnd {
    pub code: i32,
    /// The runtime's word: `OOMKilled`, `Error`, `StartError`.
    pub reason: String,
    /// What the runtime says of a container that it could not start; else what the program wrote as
    /// its last words.
    pub message: String,
}

impl ContainerEnd {
    /// Returns true for a container whose command never ran.
    pub fn never_started(&self) -> bool {
        matches!(self.reason.as_str(), "StartError" | "ContainerCannotRun")
    }

    /// Returns the exit code of the command: a supervisor of ranks ends with a code of its own and
    /// says the command's.
    pub fn command_code(&self) -> i32 {
        let told = self
            .message
            .strip_prefix(TERMINATION_PREFIX)
            .and_then(|text| text.split_once("exit code "));
        let digits = told.and_then(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        });
        digits.unwrap_or(self.code)
    }
}

/// A container's state.
#[derive(Clone, Debug, Default)]
pub struct Container {
    pub name: String,
    pub restarts: u32,
    /// Waiting: (reason, message).
    pub waiting: Option<(String, String)>,
    /// How it ended, if it has.
    pub terminated: Option<ContainerEnd>,
    /// How it ended before its last restart.
    pub last_ended: Option<ContainerEnd>,
    pub running: bool,
    /// Its startup check has passed, or it has none.
    pub started: bool,
}

/// Something that the cluster reported about a job or its pods.
#[derive(Clone, Debug)]
pub struct Event {
    pub at: Option<Timestamp>,
    pub warning: bool,
    pub reason: String,
    pub message: String,
    /// `Pod/name`, `Job/name`.
    pub object: String,
    pub count: u32,
    /// Higher for what the API server heard later; 0 when it says no number.
    pub version: u64,
}

impl Event {
    /// Orders events by what caused what. Kubelets tell whole seconds and the scheduler
    /// microseconds, so within a second the steps of a pod's life count, then the order in which
    /// the API server heard of them (resource versions are comparable numbers, KEP-5504):
    /// controllers report later than the scheduler acts.
    pub fn in_order(a: &Self, b: &Self) -> Ordering {
        let key = |event: &Self| {
            (
                event.at.map(Timestamp::as_second),
                event.step(),
                event.version,
            )
        };
        key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message))
    }

    /// Returns how far in the life of a pod this happens. What may happen at any time is beside a
    /// running container.
    fn step(&self) -> usize {
        const STEPS: [&str; 6] = [
            "SuccessfulCreate",
            "Scheduled",
            "Pulling",
            "Pulled",
            "Created",
            "Started",
        ];
        STEPS
            .iter()
            .position(|step| *step == self.reason)
            .unwrap_or(STEPS.len())
    }
}
