//! Commands about workloads of everybody.

pub mod consumers;
pub mod describe;
pub mod get;
pub mod metadata;
pub mod tree;
