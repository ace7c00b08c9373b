//! Arguments for commands about queues.

pub(crate) mod describe;
pub(crate) mod get;
