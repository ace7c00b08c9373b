//! Implements the commands that write to the cluster: they read files, plan and decide about each
//! document, write, and wait. Also handles pools and quotas. Independent of clap.

mod capacity;
pub(crate) mod comparison;
pub(crate) mod copies;
pub(crate) mod decide;
pub(crate) mod defaults;
pub(crate) mod delete;
pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod execute;
pub(crate) mod existing_jobs;
mod feasibility;
pub(crate) mod fit;
pub(crate) mod follow;
pub(crate) mod inputs;
pub(crate) mod interrupt;
pub(crate) mod local_files;
pub(crate) mod merged_errors;
pub(crate) mod names;
mod once_per;
pub(crate) mod options;
pub(crate) mod plan;
pub(crate) mod planned_files;
pub(crate) mod pool_deletion;
pub(crate) mod pool_labels;
pub(crate) mod pool_plan;
mod pool_rules;
pub(crate) mod pool_taints;
pub(crate) mod pools;
mod queueing;
pub(crate) mod quota_deletion;
pub(crate) mod quota_plan;
pub(crate) mod quotas;
pub(crate) mod reapply;
mod references;
mod release;
pub(crate) mod report;
pub(crate) mod run;
mod run_summary;
pub(crate) mod shared;
pub(crate) mod size;
pub(crate) mod stored;
pub(crate) mod submit;
pub(crate) mod submit_checks;
pub(crate) mod wait;
pub(crate) mod warnings;

/// Number of documents in one run that are checked, written or deleted concurrently.
pub(crate) const MAX_CONCURRENT: usize = 16;
