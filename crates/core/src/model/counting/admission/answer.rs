//! The answer of the simulation.

use super::facts::FlavorResource;
use crate::model::counting::fit_reason::FitReason;

/// Whether and how Kueue admits a job, from the best to the worst case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Admits {
    /// Within the quota of the ClusterQueue.
    Now,
    /// With quota of the cohort.
    Borrowing,
    /// After it has preempted other jobs.
    Preempting,
    /// When other jobs have ended, or the queue is started.
    Later,
    Unknown,
    Never,
}

impl Admits {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Borrowing => "borrowing",
            Self::Preempting => "preempting",
            Self::Later => "later",
            Self::Unknown => "unknown",
            Self::Never => "never",
        }
    }
}

/// Quota of a flavor that the job gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlavorShare {
    pub quota: FlavorResource,
    /// Amount for all pods of the job, in thousandths.
    pub requested: i128,
    /// Quota of the ClusterQueue without borrowing, in thousandths.
    pub nominal: i128,
    /// Reserved quota before the job, in thousandths.
    pub used: i128,
    /// Part of the request beyond the ClusterQueue's own quota, in thousandths.
    pub borrowed: i128,
}

/// Quota that the job lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingQuota {
    pub resource: String,
    /// `None` if no flavor of the ClusterQueue has the resource.
    pub flavor: Option<String>,
    /// Amount in thousandths that must become free, or that the job requests in excess if it never
    /// fits.
    pub amount: i128,
    /// Maximum amount in thousandths that the ClusterQueue can ever use, including the cohort.
    pub most: i128,
}

/// The simulated admission of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAdmission {
    pub queue: String,
    pub cluster_queue: Option<String>,
    pub cohort: Option<String>,
    pub admits: Admits,
    /// Empty if the job gets no flavor.
    pub flavors: Vec<FlavorShare>,
    /// What the job lacks in each flavor that Kueue tries. Empty if it is admitted.
    pub missing: Vec<MissingQuota>,
    /// NAMESPACE/NAME of the jobs that Kueue would preempt.
    pub preempts: Vec<String>,
    /// NAMESPACE/NAME of the jobs that wait before it in the ClusterQueue, first to last.
    pub ahead: Vec<String>,
    /// Why it is not admitted now.
    pub reasons: Vec<FitReason>,
    /// Conditions of Kueue that the simulation leaves out.
    pub not_evaluated: Vec<FitReason>,
}

impl QueueAdmission {
    /// Names of the flavors that the job gets, without duplicates.
    pub fn flavor_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .flavors
            .iter()
            .map(|share| share.quota.flavor.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
