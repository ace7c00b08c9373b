//! Renders workloads of any origin.

pub mod consumers;
pub mod describe;
pub mod list;
pub mod top;
pub mod tree;
