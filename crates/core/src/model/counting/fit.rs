//! Whether a job fits on nodes, and what binds on which of them. It is judged in `deploy/fit.rs`.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::victims::Victim;

/// The answer for one job.
#[derive(Clone, Debug)]
pub struct Fit {
    pub verdict: FitVerdict,
    /// Pods that must run together, or replicas.
    pub pods: u64,
    /// Of these, how many fit now; `None` where it is not known what is free.
    pub pods_now: Option<u64>,
    pub gpus_per_pod: u64,
    /// Nodes by what keeps a further pod off them, those with room first.
    pub groups: Vec<NodeGroup>,
    /// By the label that the nodes are told apart by, those that take most pods first; none without
    /// a label.
    pub domains: Vec<Domain>,
    /// Pods that the scheduler would end to place it; `None` where it ends none, or where that is
    /// not known.
    pub victims: Option<Vec<Victim>>,
    /// When deadlines of those that run make room for all pods; `None` where they do not, or where
    /// others wait as well.
    pub room_by: Option<Timestamp>,
    /// Why it cannot be submitted, or waits for something that is not a node.
    pub reasons: Vec<String>,
    /// What the verdict leaves out.
    pub not_evaluated: Vec<String>,
}

impl Fit {
    /// Returns the devices of all pods.
    pub fn gpus(&self) -> u64 {
        self.pods.saturating_mul(self.gpus_per_pod)
    }

    /// Returns the nodes on which its pods may run once there is room.
    pub fn possible(&self) -> BTreeSet<String> {
        let is_possible = |group: &&NodeGroup| {
            group
                .cause
                .is_none_or(|cause| cause.starts_with("insufficient") || cause == "device-claim")
        };
        self.groups
            .iter()
            .filter(is_possible)
            .flat_map(|group| group.nodes.iter().cloned())
            .collect()
    }
}

/// Whether a job fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FitVerdict {
    Now,
    NotNow,
    Unknown,
    Never,
}

/// Nodes with one value of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    pub value: String,
    pub verdict: FitVerdict,
    /// `None` where it is not known what is free.
    pub pods_now: Option<u64>,
    pub nodes: usize,
}

/// Nodes on which the same thing binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// A word of causes; `None` for nodes with room.
    pub cause: Option<&'static str>,
    /// The taint, the label or the resource.
    pub detail: Option<String>,
    pub nodes: Vec<String>,
    /// Further pods that they take now, all together.
    pub pods_now: u64,
}
