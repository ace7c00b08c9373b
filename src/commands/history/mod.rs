//! Commands that report past usage.

pub(crate) mod clusters;
pub(crate) mod dimensions;
pub(crate) mod eff;
pub(crate) mod report;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod who_gpu;
