//! The flavors that the simulation assigns to a group of pods.

use super::facts::{FlavorAmounts, FlavorExclusion, FlavorResource};

/// How a flavor could serve a request, from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FlavorMode {
    NoFit,
    /// Preemption is allowed, but no job can be preempted.
    NoCandidates,
    /// Preempts jobs of the same ClusterQueue.
    Preempt,
    /// Preempts jobs of other ClusterQueues.
    Reclaim,
    Fit,
}

/// Quota that a flavor lacks for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QuotaShortage {
    pub quota: FlavorResource,
    /// Amount of the request, including earlier pod sets of the job.
    pub requested: i128,
    pub available: i128,
    /// Amount that the ClusterQueue could use if nothing else ran.
    pub most: i128,
}

/// A flavor that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlavorAttempt {
    pub flavor: String,
    pub exclusion: Option<FlavorExclusion>,
    pub shortages: Vec<QuotaShortage>,
}

/// The flavors of one workload.
#[derive(Clone, Debug)]
pub(super) struct FlavorAssignment {
    pub mode: FlavorMode,
    /// Requests by assigned flavor.
    pub uses: FlavorAmounts,
    /// The part of `uses` that needs preemption.
    pub contested: FlavorAmounts,
    pub attempts: Vec<FlavorAttempt>,
    /// Requested resources that the ClusterQueue does not cover, with their amounts.
    pub uncovered: Vec<(String, i128)>,
    /// Whether a flavor might be chosen earlier, because its preemptions are unknown.
    pub is_uncertain: bool,
    /// Whether preemption is allowed, but the facts for it are missing.
    pub lacks_preemption_facts: bool,
}

impl Default for FlavorAssignment {
    fn default() -> Self {
        Self {
            mode: FlavorMode::Fit,
            uses: FlavorAmounts::new(),
            contested: FlavorAmounts::new(),
            attempts: Vec::new(),
            uncovered: Vec::new(),
            is_uncertain: false,
            lacks_preemption_facts: false,
        }
    }
}
