//! Arguments for commands about volume claims.

pub(crate) mod get;
