//! Result of `fit`: whether a job fits, and the nodes that each constraint excludes.
//! `deploy/fit.rs` computes it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::admission::{Admits, QueueAdmission};
use super::fit_reason::FitReason;
use super::victims::Victim;

#[derive(Clone, Debug)]
pub struct Fit {
    pub verdict: FitVerdict,
    /// Number of pods that must run together, or of replicas.
    pub pods: u64,
    /// Number of these pods that fit now, or `None` if free capacity is unknown.
    pub pods_now: Option<u64>,
    pub gpus_per_pod: u64,
    /// Nodes by the constraint that excludes further pods. Groups with free capacity come first.
    pub groups: Vec<NodeGroup>,
    /// Nodes by the value of the topology label, with the most fitting pods first. Empty if no
    /// label was given.
    pub domains: Vec<Domain>,
    /// Pods that the scheduler would preempt for the job, or `None` if it would preempt none or
    /// that is unknown.
    pub victims: Option<Vec<Victim>>,
    /// Time by which the deadlines of running jobs free enough capacity for all pods. `None` if
    /// they free too little, or if other pods also wait.
    pub free_by: Option<Timestamp>,
    /// Reasons why the job cannot be submitted, or would wait for something other than nodes.
    pub reasons: Vec<FitReason>,
    /// Constraints that gpuctl did not check.
    pub not_evaluated: Vec<FitReason>,
    /// Problems that do not affect scheduling but may prevent the containers from starting.
    pub warnings: Vec<String>,
    /// Simulated admission by the job's Kueue queue, or `None` without such a queue.
    pub queue: Option<QueueAdmission>,
}

impl Fit {
    /// Returns the number of devices of all pods together.
    pub fn gpus(&self) -> u64 {
        self.pods.saturating_mul(self.gpus_per_pod)
    }

    /// Returns true if the job waits for a volume. Forecasts of free capacity are then useless.
    pub fn waits_for_claim(&self) -> bool {
        let mut causes = self.reasons.iter().map(|reason| &reason.cause);
        causes.any(|cause| cause.starts_with("claim-"))
    }

    /// Returns true if the job's queue holds it back, so that free nodes do not start it.
    pub fn waits_in_queue(&self) -> bool {
        let admits = self.queue.as_ref().map(|queue| queue.admits);
        matches!(admits, Some(Admits::Preempting | Admits::Later))
    }

    /// Adds the simulated admission by the job's queue to the verdict.
    pub fn add_queue(&mut self, queue: QueueAdmission) {
        let verdict = match queue.admits {
            Admits::Now | Admits::Borrowing => FitVerdict::Now,
            Admits::Preempting | Admits::Later => FitVerdict::NotNow,
            Admits::Unknown => FitVerdict::Unknown,
            Admits::Never => FitVerdict::Never,
        };
        self.verdict = self.verdict.max(verdict);
        // A queue that does not exist has already been reported, with the names of others.
        let is_reported = |reason: &FitReason| {
            reason.cause == "queue-missing"
                && self
                    .reasons
                    .iter()
                    .any(|known| known.cause == "queue-missing")
        };
        let reasons: Vec<FitReason> = queue
            .reasons
            .iter()
            .filter(|reason| !is_reported(reason))
            .cloned()
            .collect();
        self.reasons.extend(reasons);
        self.not_evaluated
            .extend(queue.not_evaluated.iter().cloned());
        self.queue = Some(queue);
    }

    /// Returns the nodes that could run the job's pods if enough capacity were free.
    pub fn possible(&self) -> BTreeSet<String> {
        // Only a lack of capacity can end without changes to the job or the nodes.
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

/// Nodes in one topology domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    pub value: String,
    pub verdict: FitVerdict,
    /// `None` if free capacity is unknown.
    pub pods_now: Option<u64>,
    pub nodes: usize,
}

/// Nodes that the same constraint excludes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// Name of the constraint, or `None` for nodes with free capacity.
    pub cause: Option<&'static str>,
    /// The taint, label, resource or volume claim in conflict.
    pub detail: Option<String>,
    pub nodes: Vec<String>,
    /// Number of further pods that fit on these nodes in total, or `None` if free capacity is
    /// unknown.
    pub pods_now: Option<u64>,
}
