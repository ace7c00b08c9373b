//! Queues and gangs: the systems that admit jobs and that schedule the pods of a training together.
//! Messages of queues are only displayed; no decision is based on them.

use std::fmt;

use jiff::Timestamp;

use crate::model::values::units::GpuCount;

/// A system that admits jobs through queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueSystem {
    /// Kueue, which reads a label of the object that owns the pods.
    Kueue,
    /// Volcano, a separate scheduler, which reads annotations of the pods.
    Volcano,
}

impl QueueSystem {
    /// All systems, in the order in which they are queried.
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
    /// The queue's system, or else Kubernetes' own PodGroup if the cluster serves it.
    #[default]
    Auto,
    /// Kubernetes' own PodGroup (1.36 and later, behind feature gates).
    Native,
    /// Admission by Kueue, which requires a queue.
    Kueue,
    /// Volcano's PodGroup, with or without a queue.
    Volcano,
    /// No gang: pods are scheduled one by one.
    None,
}

impl GangMode {
    /// The values of `job.gang`.
    pub const WORDS: [&'static str; 5] = ["auto", "native", "kueue", "volcano", "none"];

    /// Parses a value; `Auto` for any other text.
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
    /// kube-scheduler, through a PodGroup of this API group and version:
    /// `scheduling.k8s.io/v1alpha2`.
    Native(String),
    /// Volcano's scheduler, through a PodGroup that its controller creates.
    Volcano,
    /// Kueue admits the pods together. Whether they also fit on nodes together depends on its
    /// configuration.
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
    /// Number of waiting jobs in its queue; `None` if there are too many to count.
    pub waiting: Option<u64>,
    /// Position across all queues of its ClusterQueue, which is the order in which Kueue admits
    /// jobs.
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

/// A queue and its status in its queue system. GPUs count devices of all resource names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub system: QueueSystem,
    pub name: String,
    /// `None` for Volcano's queues, which are cluster-scoped.
    pub namespace: Option<String>,
    /// Kueue's ClusterQueue, whose quota is shared by all its LocalQueues.
    pub cluster_queue: Option<String>,
    pub active: bool,
    /// Why it is not active.
    pub message: Option<String>,
    /// Limit on the GPUs of all its jobs; for a LocalQueue, the quota of its ClusterQueue. `None`
    /// without a limit, or if the user cannot read it.
    pub quota: Option<GpuCount>,
    /// GPUs that its own jobs use.
    pub used: Option<GpuCount>,
    /// GPUs that its ClusterQueue uses beyond its quota.
    pub borrowed: Option<GpuCount>,
    /// Number of admitted jobs; `None` if unknown.
    pub running: Option<u64>,
    pub waiting: Option<u64>,
}

/// A preemption of a job by another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// `None` for a preemption that is over.
    pub at: Option<Timestamp>,
    pub namespace: String,
    pub job: String,
    /// The preempting job as NAMESPACE/NAME; `None` if it is not reported, or if the job is
    /// deleted.
    pub by: Option<String>,
    pub queue: Option<String>,
    /// How often this job has been preempted; `None` if no counter exists.
    pub times: Option<u64>,
    /// Whether its queue has admitted it again; `None` for single pods, which are replaced instead.
    pub admitted_again: Option<bool>,
    pub message: String,
}

/// The status of a waiting group of pods, from a gang scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupVerdict {
    /// `Kubernetes`, `Volcano`, `KAI`, `scheduler-plugins`.
    pub scheduler: &'static str,
    /// The scheduler's CamelCase reason.
    pub reason: String,
    /// Empty if the scheduler gives none.
    pub message: String,
    /// Number of pods that it schedules together, if it reports it.
    pub members: Option<u64>,
}
