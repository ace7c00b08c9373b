//! Arguments for commands about quotas.

pub(crate) mod describe;
pub(crate) mod get;
