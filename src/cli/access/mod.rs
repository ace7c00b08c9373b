//! Arguments for commands about permissions.

pub(crate) mod auth_check;
