//! Reads queues, quotas and the verdicts of gang schedulers.

pub(crate) mod admission_facts;
mod admission_wire;
mod admission_workloads;
mod kueue_wire;
pub(crate) mod kueue_workload;
pub(crate) mod pod_group;
pub(crate) mod preemptions;
pub(crate) mod queue_position;
pub(crate) mod queues;
pub(crate) mod quotas;
pub(crate) mod topology_levels;
