//! Commands about what GPUs measure.

pub mod heatmap;
pub mod job;
pub mod overview;
pub mod top;
pub mod training_performance;
pub mod workload;
