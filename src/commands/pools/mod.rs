//! Commands for pools.

pub(crate) mod describe;
pub(crate) mod get;
pub(crate) mod nodes;
