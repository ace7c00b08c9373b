//! Queues, which admit jobs, and gangs, whose pods a scheduler starts together. Messages from
//! queues are displayed, and explain a wait; nothing else depends on them.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::model::values::units::GpuCount;

/// A system that admits jobs through queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueSystem {
    /// Kueue, which reads a label on the object that owns the pods.
    Kueue,
    /// Volcano, a separate scheduler, which reads annotations on the pods.
    Volcano,
}

impl QueueSystem {
    /// All queue systems, in the order in which gpuctl queries them.
    pub const ALL: [Self; 2] = [Self::Kueue, Self::Volcano];
    /// Values of `job.queue_system`.
    pub const WORDS: [&'static str; 2] = ["kueue", "volcano"];

    /// Returns the value of `job.queue_system`.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Returns the product name of the queue system.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kueue => "Kueue",
            Self::Volcano => "Volcano",
        }
    }
}

/// Value of `job.gang`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GangMode {
    /// The system of the job's queue. Without a queue, Kubernetes' PodGroup if the cluster supports
    /// it.
    #[default]
    Auto,
    /// Kubernetes' PodGroup (1.36 and later, behind feature gates).
    Native,
    /// Admission by Kueue, which requires a queue.
    Kueue,
    /// Volcano's PodGroup, with or without a queue.
    Volcano,
    /// No gang: pods are scheduled one by one.
    None,
}

impl GangMode {
    /// Values of `job.gang`.
    pub const WORDS: [&'static str; 5] = ["auto", "native", "kueue", "volcano", "none"];

    /// Parses a value of `job.gang`. Unknown text becomes `Auto`.
    pub fn from_word(word: &str) -> Self {
        match word {
            "native" => Self::Native,
            "kueue" => Self::Kueue,
            "volcano" => Self::Volcano,
            "none" => Self::None,
            _ => Self::Auto,
        }
    }
}

/// System that schedules the pods of a training together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gang {
    /// kube-scheduler, with a PodGroup of this API group and version: `scheduling.k8s.io/v1alpha2`.
    Native(String),
    /// Volcano's scheduler, which uses a PodGroup that its controller creates.
    Volcano,
    /// Kueue, which admits the pods together. Its configuration determines whether it also checks
    /// that they fit on nodes.
    Kueue,
}

/// Reason and message of Kueue for holding back a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueVerdict {
    /// Reason that Kueue reports, such as `Pending`, `Inadmissible` or `Preempted`.
    pub reason: String,
    pub message: String,
    /// Reason and message that hold back an evicted job now. `None` if the job was not evicted, or
    /// if Kueue has not evaluated it again.
    pub current: Option<(String, String)>,
    /// Admission checks that are not ready.
    pub checks: Vec<QueueCheck>,
}

/// State of a Kueue admission check of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueCheck {
    pub name: String,
    /// `Pending`, `Retry` or `Rejected`.
    pub state: String,
    pub message: String,
}

/// A job that a controller of another cluster runs (`spec.managedBy`). This cluster has no pods of
/// it, and its status is a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteRun {
    /// Name of the controller, such as `kueue.x-k8s.io/multikueue`.
    pub managed_by: String,
    /// Number of pods that have not terminated (`status.active`).
    pub active: u32,
    /// Number of ready pods (`status.ready`), or `None` if the status has none.
    pub ready: Option<u32>,
    /// Name that Kueue's Workload gives to the cluster, if it has chosen one.
    pub cluster: Option<String>,
    /// Clusters from which Kueue chooses one.
    pub candidates: Vec<String>,
}

impl fmt::Display for RemoteRun {
    /// Describes where the job runs, such as `cluster worker-2 runs it; 2 pods are active`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cluster, self.candidates.as_slice()) {
            (Some(cluster), _) => write!(f, "cluster {cluster} runs it; ")?,
            (None, []) => write!(f, "{} runs it in another cluster; ", self.managed_by)?,
            (None, names) => {
                return write!(f, "clusters that may run it: {}", names.join(", "));
            }
        }
        write!(f, "{} pods are active", self.active)?;
        match self.ready {
            Some(ready) => write!(f, " there, {ready} of them are ready"),
            None => write!(f, " there"),
        }
    }
}

/// Positions of a waiting job, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    /// Position among the jobs that wait in the same queue.
    pub in_queue: u64,
    /// Number of jobs that wait in the queue, or `None` if there are too many to count.
    pub waiting: Option<u64>,
    /// Position among the jobs of all queues of the ClusterQueue, which is the order of admission.
    pub in_cluster_queue: u64,
}

impl fmt::Display for QueuePosition {
    /// Formats the position in the queue, for example `3/12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.waiting {
            Some(waiting) => write!(f, "{}/{waiting}", self.in_queue),
            None => write!(f, "{}", self.in_queue),
        }
    }
}

/// A queue with its status. GPU counts include all device resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub system: QueueSystem,
    pub name: String,
    /// Namespace of the queue, or `None` for Volcano's queues, which are cluster-scoped.
    pub namespace: Option<String>,
    /// Kueue's ClusterQueue, whose quota all its LocalQueues share.
    pub cluster_queue: Option<String>,
    pub active: bool,
    /// Reason why the queue is not active.
    pub message: Option<String>,
    /// Maximum number of GPUs of all its jobs; for a LocalQueue, the quota of its ClusterQueue.
    /// `None` if unlimited or not readable.
    pub quota: Option<GpuCount>,
    /// Number of GPUs that jobs of this queue use.
    pub used: Option<GpuCount>,
    /// Number of GPUs that the ClusterQueue uses beyond its quota.
    pub borrowed: Option<GpuCount>,
    /// Number of admitted jobs, or `None` if unknown.
    pub running: Option<u64>,
    pub waiting: Option<u64>,
    /// `None` if they are not shown.
    pub labels: Option<BTreeMap<String, String>>,
}

/// The preemption of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// Time of the preemption, or `None` once it is over, because Kueue then records only its end.
    pub at: Option<Timestamp>,
    pub namespace: String,
    pub job: String,
    /// NAMESPACE/NAME of the preempting job, or `None` if it is not reported or was deleted.
    pub by: Option<String>,
    pub queue: Option<String>,
    /// Number of times that the job was preempted, or `None` without a counter.
    pub times: Option<u64>,
    /// True if the queue has admitted the job again. `None` for single pods, which are replaced
    /// instead.
    pub admitted_again: Option<bool>,
    pub message: String,
}

/// Status of a group of waiting pods, as reported by a gang scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupVerdict {
    /// Product name: `Kubernetes`, `Volcano`, `KAI` or `scheduler-plugins`.
    pub scheduler: &'static str,
    /// Reason from the scheduler, in CamelCase.
    pub reason: String,
    /// Message from the scheduler, or empty if it reports none.
    pub message: String,
    /// Number of pods that the scheduler starts together, if reported.
    pub members: Option<u64>,
}
