//! Commands about pools.

pub mod describe;
pub mod get;
pub mod nodes;
