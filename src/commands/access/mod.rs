//! Commands about permissions and secrets.

pub(crate) mod auth_check;
