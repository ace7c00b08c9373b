//! Renders queues and quotas.

pub mod list;
pub mod preemptions;
pub mod quotas;
