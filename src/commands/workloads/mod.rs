//! Commands for workloads of all users.

pub(crate) mod consumers;
pub(crate) mod describe;
pub(crate) mod get;
pub(crate) mod metadata;
pub(crate) mod tree;
