//! Whether a job fits, and which constraint rules out which nodes. `deploy/fit.rs` decides it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::victims::Victim;

#[derive(Clone, Debug)]
pub struct Fit {
    pub verdict: FitVerdict,
    /// Pods that must run together, or replicas.
    pub pods: u64,
    /// How many of these pods fit now; `None` when free capacity is unknown.
    pub pods_now: Option<u64>,
    pub gpus_per_pod: u64,
    /// Nodes grouped by the reason why no further pod fits, those with free capacity first.
    pub groups: Vec<NodeGroup>,
    /// Nodes by the value of the label given for domains, those that take the most pods first;
    /// empty without a label.
    pub domains: Vec<Domain>,
    /// Pods that the scheduler would preempt for it; `None` when it preempts none, or when that is
    /// unknown.
    pub victims: Option<Vec<Victim>>,
    /// When all pods fit because running jobs have reached their deadlines; `None` when deadlines
    /// free too little, or when other pods wait too.
    pub free_by: Option<Timestamp>,
    /// Why it cannot be submitted, or waits for something other than a node.
    pub reasons: Vec<String>,
    /// Constraints that the verdict does not cover.
    pub not_evaluated: Vec<String>,
}

impl Fit {
    /// The devices of all pods.
    pub fn gpus(&self) -> u64 {
        self.pods.saturating_mul(self.gpus_per_pod)
    }

    /// The nodes on which its pods could run once enough capacity is free.
    pub fn possible(&self) -> BTreeSet<String> {
        // Only a shortage can end without a change to the job or the nodes.
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

/// Whether and when a job fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FitVerdict {
    Now,
    NotNow,
    Unknown,
    Never,
}

/// Nodes with the same value of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    pub value: String,
    pub verdict: FitVerdict,
    /// `None` when free capacity is unknown.
    pub pods_now: Option<u64>,
    pub nodes: usize,
}

/// Nodes ruled out by the same constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// The name of the cause; `None` for nodes with free capacity.
    pub cause: Option<&'static str>,
    /// The taint, the label or the resource.
    pub detail: Option<String>,
    pub nodes: Vec<String>,
    /// How many further pods these nodes take now, in total.
    pub pods_now: u64,
}
