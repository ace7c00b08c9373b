//! Describes whether a job fits, and which nodes each constraint rules out. `deploy/fit.rs` makes
//! the decision.

use std::borrow::Cow;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::victims::Victim;

#[derive(Clone, Debug)]
pub struct Fit {
    pub verdict: FitVerdict,
    /// The number of pods that must run together, or of replicas.
    pub pods: u64,
    /// How many of these pods fit now. `None` if free capacity is unknown.
    pub pods_now: Option<u64>,
    pub gpus_per_pod: u64,
    /// Nodes grouped by the reason why no more pods fit. Groups with free capacity come first.
    pub groups: Vec<NodeGroup>,
    /// Nodes grouped by the value of the topology label. The group that fits the most pods comes
    /// first. Empty if no label was given.
    pub domains: Vec<Domain>,
    /// Pods that the scheduler would preempt to make room for the job. `None` if it would preempt
    /// none, or if that is unknown.
    pub victims: Option<Vec<Victim>>,
    /// The time by which the deadlines of running jobs free enough capacity for all pods. `None` if
    /// they free too little, or if other pods wait too.
    pub free_by: Option<Timestamp>,
    /// Why the job cannot be submitted, or would wait for something other than a node.
    pub reasons: Vec<FitReason>,
    /// Constraints that were not checked.
    pub not_evaluated: Vec<FitReason>,
    /// Problems that the scheduler ignores, but that may keep the containers from starting.
    pub warnings: Vec<String>,
}

/// Why a job does not fit, or why that is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitReason {
    /// A cause, named as by `why` (`claim-missing`), or the name of an error (`SecretNotFound`).
    pub cause: Cow<'static, str>,
    pub text: String,
}

impl FitReason {
    pub fn new(cause: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self {
            cause: cause.into(),
            text: text.into(),
        }
    }
}

impl Fit {
    /// The number of devices that all pods need together.
    pub fn gpus(&self) -> u64 {
        self.pods.saturating_mul(self.gpus_per_pod)
    }

    /// Whether the job waits for a volume, which no forecast of free capacity covers.
    pub fn waits_for_claim(&self) -> bool {
        let mut causes = self.reasons.iter().map(|reason| &reason.cause);
        causes.any(|cause| cause.starts_with("claim-"))
    }

    /// The nodes on which its pods could run if enough capacity were free.
    pub fn possible(&self) -> BTreeSet<String> {
        // Only a lack of capacity can end without a change to the job or the nodes.
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
    /// The name of the constraint, or `None` for nodes with free capacity.
    pub cause: Option<&'static str>,
    /// The taint, label, resource or volume claim that the constraint is about.
    pub detail: Option<String>,
    pub nodes: Vec<String>,
    /// How many more pods fit on these nodes now, in total. `None` if their free capacity is
    /// unknown.
    pub pods_now: Option<u64>,
}
