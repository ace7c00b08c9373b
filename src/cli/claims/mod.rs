//! Arguments of commands for volume claims.

pub(crate) mod get;
