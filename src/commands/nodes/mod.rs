//! Commands about nodes.

pub mod describe;
pub mod get;
pub mod label;
pub mod labels;
