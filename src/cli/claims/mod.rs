//! Arguments of the verbs about volume claims.

pub(crate) mod get;
