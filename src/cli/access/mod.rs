//! Arguments of commands for permissions.

pub(crate) mod auth_check;
