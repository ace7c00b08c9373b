//! Renders workloads of any origin.

pub mod list;
pub mod top;
pub mod tree;
