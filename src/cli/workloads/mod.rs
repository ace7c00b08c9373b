//! Arguments of commands for workloads, including those of other tools.

pub(crate) mod consumers;
pub(crate) mod describe;
pub(crate) mod get;
pub(crate) mod metadata;
pub(crate) mod tree;
