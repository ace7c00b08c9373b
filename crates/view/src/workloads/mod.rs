//! Renders workloads that any tool created.

pub mod consumers;
pub mod describe;
pub mod list;
pub mod top;
pub mod tree;
