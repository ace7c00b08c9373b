//! Arguments for commands about all workloads, including those that gpuctl did not create.

pub(crate) mod consumers;
pub(crate) mod describe;
pub(crate) mod get;
pub(crate) mod metadata;
pub(crate) mod tree;
