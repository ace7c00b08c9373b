//! What can be typed about nodes.

pub mod describe;
pub mod get;
pub mod label;
pub mod labels;
