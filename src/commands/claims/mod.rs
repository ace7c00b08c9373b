//! Commands for volume claims.

pub(crate) mod get;
