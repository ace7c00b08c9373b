//! Commands about rights and secrets.

pub mod auth_check;
