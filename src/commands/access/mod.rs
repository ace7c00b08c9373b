//! Commands about rights and secrets.

pub(crate) mod auth_check;
