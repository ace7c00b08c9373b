//! What the verbs about volume claims do.

pub(crate) mod get;
