//! Commands about volume claims.

pub(crate) mod get;
