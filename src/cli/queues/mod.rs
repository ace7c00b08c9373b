//! Arguments of commands for queues.

pub(crate) mod describe;
pub(crate) mod get;
