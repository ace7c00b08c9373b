//! Arguments of commands about access rights.

pub(crate) mod auth_check;
