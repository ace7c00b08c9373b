//! Commands for GPU metrics.

pub(crate) mod health;
pub(crate) mod heatmap;
pub(crate) mod job;
pub(crate) mod overview;
pub(crate) mod top;
pub(crate) mod training_performance;
pub(crate) mod workload;
