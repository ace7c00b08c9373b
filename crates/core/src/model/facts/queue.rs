//! Queues and gangs: who decides when a job runs, and who places the pods of a training together.
//! What a queue says of a job is in the queue's own words; nothing here decides on them.

use std::fmt;

use jiff::Timestamp;

use crate::model::values::units::GpuCount;

/// A system that admits jobs by queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueSystem {
    /// Kueue: a label on the object that owns the pods.
    Kueue,
    /// Volcano: a scheduler of its own, which reads annotations of the pods.
    Volcano,
}

impl QueueSystem {
    /// Both, in the order in which they are asked.
    pub const ALL: [Self; 2] = [Self::Kueue, Self::Volcano];
    /// The words of `job.queue_system`.
    pub const WORDS: [&'static str; 2] = ["kueue", "volcano"];

    /// Returns the word of the YAML.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Returns the name as its makers write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kueue => "Kueue",
            Self::Volcano => "Volcano",
        }
    }
}

/// What `job.gang` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GangWish {
    /// The queue's system, else Kubernetes' own PodGroup where it is served.
    #[default]
    Auto,
    /// The PodGroup of Kubernetes itself (1.36 and later, behind feature gates).
    Native,
    /// Kueue's admission, by a queue.
    Kueue,
    /// A PodGroup of Volcano's, with a queue or without.
    Volcano,
    /// The pods are placed one by one.
    None,
}

impl GangWish {
    /// The words of `job.gang`.
    pub const WORDS: [&'static str; 5] = ["auto", "native", "kueue", "volcano", "none"];

    /// Returns the wish of a word.
    pub fn of(word: &str) -> Self {
        match word {
            "native" => Self::Native,
            "kueue" => Self::Kueue,
            "volcano" => Self::Volcano,
            "none" => Self::None,
            _ => Self::Auto,
        }
    }
}

/// Who places the pods of a training together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gang {
    /// kube-scheduler, by a PodGroup of this group and version: `scheduling.k8s.io/v1alpha2`.
    Native(String),
    /// Volcano's scheduler, by a PodGroup that its controller makes.
    Volcano,
    /// Kueue admits the pods together; whether they also fit on nodes together depends on its
    /// configuration.
    Kueue,
}

/// Kueue's reason for holding a job back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueVerdict {
    /// The queue's own word: `Pending`, `Inadmissible`, `Preempted`.
    pub reason: String,
    pub message: String,
}

/// The place of a job that waits, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    /// Among those that wait in the job's own queue.
    pub in_queue: u64,
    /// How many wait there; `None` where they are too many to count.
    pub waiting: Option<u64>,
    /// Among those of all queues of its ClusterQueue: the order in which Kueue admits.
    pub in_cluster_queue: u64,
}

impl fmt::Display for QueuePosition {
    /// `3/12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.waiting {
            Some(waiting) => write!(f, "{}/{waiting}", self.in_queue),
            None => write!(f, "{}", self.in_queue),
        }
    }
}

/// A queue, with what its system says of it. GPUs are devices of all resource names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub system: QueueSystem,
    pub name: String,
    /// `None` for Volcano's, which are the cluster's.
    pub namespace: Option<String>,
    /// Kueue's ClusterQueue, whose quota it shares with the other queues of it.
    pub cluster_queue: Option<String>,
    pub active: bool,
    /// Why it is not active.
    pub message: Option<String>,
    /// What its jobs may use together: of a LocalQueue that of its ClusterQueue. `None` without a
    /// limit, or where it may not be read.
    pub quota: Option<GpuCount>,
    /// What its own jobs use.
    pub used: Option<GpuCount>,
    /// What its ClusterQueue uses beyond its quota.
    pub borrowed: Option<GpuCount>,
    /// Jobs that it has let run; `None` where that is not known.
    pub running: Option<u64>,
    pub waiting: Option<u64>,
}

/// A job that gave its GPUs to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// `None` for one that is over.
    pub at: Option<Timestamp>,
    pub namespace: String,
    pub job: String,
    /// NAMESPACE/NAME; `None` where that is not told, or the job is gone.
    pub by: Option<String>,
    pub queue: Option<String>,
    /// How often this job was preempted; `None` where nobody counts.
    pub times: Option<u64>,
    /// Whether its queue has let it run again; `None` for pods, for which others come.
    pub admitted_again: Option<bool>,
    pub message: String,
}

/// What a scheduler of gangs says of a group of pods that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupVerdict {
    /// `Kubernetes`, `Volcano`, `KAI`, `scheduler-plugins`.
    pub scheduler: &'static str,
    /// A CamelCase word of the scheduler's own.
    pub reason: String,
    /// Empty where it says nothing.
    pub message: String,
    /// Pods that it places together, where it tells.
    pub members: Option<u64>,
}
