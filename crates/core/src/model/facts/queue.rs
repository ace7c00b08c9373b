//! Queues and gangs. A queue admits jobs, and a gang scheduler starts the pods of a training
//! together. Messages from queues are only displayed, and no decision depends on them.

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
    /// The values of `job.queue_system`.
    pub const WORDS: [&'static str; 2] = ["kueue", "volcano"];

    /// The value in the YAML.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The product name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kueue => "Kueue",
            Self::Volcano => "Volcano",
        }
    }
}

/// The value of `job.gang`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GangMode {
    /// The system that the queue belongs to. Without a queue, Kubernetes' own PodGroup, if the
    /// cluster supports it.
    #[default]
    Auto,
    /// Kubernetes' own PodGroup (1.36 and later, behind feature gates).
    Native,
    /// Admission by Kueue, which requires a queue.
    Kueue,
    /// Volcano's PodGroup, whether or not a queue is set.
    Volcano,
    /// No gang: pods are scheduled one by one.
    None,
}

impl GangMode {
    /// The values of `job.gang`.
    pub const WORDS: [&'static str; 5] = ["auto", "native", "kueue", "volcano", "none"];

    /// Parses a value. Any other text is parsed as `Auto`.
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

/// The system that schedules the pods of a training together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gang {
    /// kube-scheduler, which uses a PodGroup with this API group and version:
    /// `scheduling.k8s.io/v1alpha2`.
    Native(String),
    /// Volcano's scheduler, which uses a PodGroup that its controller creates.
    Volcano,
    /// Kueue, which admits the pods together. Whether they also fit on nodes together depends on
    /// Kueue's configuration.
    Kueue,
}

/// Why Kueue holds back a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueVerdict {
    /// The reason that Kueue reports: `Pending`, `Inadmissible`, `Preempted`.
    pub reason: String,
    pub message: String,
}

/// The position of a waiting job, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    /// Position among the jobs that wait in its own queue.
    pub in_queue: u64,
    /// The number of waiting jobs in its queue. `None` if there are too many to count.
    pub waiting: Option<u64>,
    /// The position across all queues of its ClusterQueue. Kueue admits jobs in this order.
    pub in_cluster_queue: u64,
}

impl fmt::Display for QueuePosition {
    /// Formats as `3/12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.waiting {
            Some(waiting) => write!(f, "{}/{waiting}", self.in_queue),
            None => write!(f, "{}", self.in_queue),
        }
    }
}

/// A queue, and its status in its queue system. Numbers of GPUs include all device resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub system: QueueSystem,
    pub name: String,
    /// The namespace. `None` for Volcano's queues, which are cluster-scoped.
    pub namespace: Option<String>,
    /// The ClusterQueue in Kueue. All its LocalQueues share its quota.
    pub cluster_queue: Option<String>,
    pub active: bool,
    /// Why the queue is not active.
    pub message: Option<String>,
    /// The maximum number of GPUs for all its jobs. For a LocalQueue, it is the quota of its
    /// ClusterQueue. `None` if there is no limit, or if the user cannot read it.
    pub quota: Option<GpuCount>,
    /// The number of GPUs that the jobs of this queue use.
    pub used: Option<GpuCount>,
    /// The number of GPUs that its ClusterQueue uses beyond its quota.
    pub borrowed: Option<GpuCount>,
    /// The number of admitted jobs. `None` if unknown.
    pub running: Option<u64>,
    pub waiting: Option<u64>,
    /// `None` if they are not shown.
    pub labels: Option<BTreeMap<String, String>>,
}

/// A job that was preempted by another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// When the preemption happened. This is no longer known (`None`) once the preemption is over.
    pub at: Option<Timestamp>,
    pub namespace: String,
    pub job: String,
    /// The job that preempted it, as NAMESPACE/NAME. `None` if it is not reported, or if that job
    /// is deleted.
    pub by: Option<String>,
    pub queue: Option<String>,
    /// How often the job has been preempted. `None` if there is no counter.
    pub times: Option<u64>,
    /// Whether the queue has admitted the job again. `None` for single pods, because they are
    /// replaced instead.
    pub admitted_again: Option<bool>,
    pub message: String,
}

/// The status of a group of waiting pods, as reported by a gang scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupVerdict {
    /// `Kubernetes`, `Volcano`, `KAI`, `scheduler-plugins`.
    pub scheduler: &'static str,
    /// The reason from the scheduler, in CamelCase.
    pub reason: String,
    /// The message. It is empty if the scheduler reports none.
    pub message: String,
    /// The number of pods that the scheduler starts together, if it reports it.
    pub members: Option<u64>,
}
