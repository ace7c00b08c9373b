//! What can be typed about rights and secrets.

pub mod auth_check;
