//! Commands for permissions and secrets.

pub(crate) mod auth_check;
