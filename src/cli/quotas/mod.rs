//! Arguments of commands for quotas.

pub(crate) mod describe;
pub(crate) mod get;
