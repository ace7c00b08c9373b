//! Simulates Kueue's admission of a job that does not exist yet: the choice of flavors, borrowing,
//! and preemption. Source: Kueue 0.18 (pkg/scheduler/flavorassigner, pkg/scheduler/preemption,
//! pkg/cache/scheduler).
//!
//! Knows nothing of Kubernetes objects, so that every rule is tested with plain numbers.
//! `cluster/queueing/admission_facts.rs` reads the facts.

mod answer;
mod assign;
mod assignment;
mod facts;
mod preempt;
mod quota_tree;
mod reasons;
mod simulate;

pub use answer::{Admits, FlavorShare, MissingQuota, QueueAdmission};
pub use facts::{
    AdmissionRequest, ClusterQueue, Cohort, FlavorAmounts, FlavorExclusion, FlavorFungibility,
    FlavorQuota, FlavorQuotas, FlavorResource, OpenQueue, PodSetRequest, PreemptionPolicy,
    PreemptionRules, QueueFacts, QueueState, RequiredCheck, ReservedJob, ResourceFlavor,
    ResourceGroup, WaitingJob,
};
pub use reasons::quota_amount;
pub use simulate::admission;

#[cfg(test)]
mod tests;
