//! Commands for nodes.

pub(crate) mod describe;
pub(crate) mod drain;
pub(crate) mod free;
pub(crate) mod get;
pub(crate) mod label;
pub(crate) mod labels;
