//! Arguments of commands about volume claims.

pub(crate) mod get;
