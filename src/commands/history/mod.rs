//! Commands about the past.

pub mod clusters;
pub mod dimensions;
pub mod eff;
pub mod report;
pub mod snapshot;
pub mod stats;
pub mod who_gpu;
