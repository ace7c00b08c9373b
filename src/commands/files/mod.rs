//! Commands about specification files.

pub mod apply;
pub mod convert;
pub mod create;
pub mod diff;
pub mod explain;
pub mod init;
pub mod schema;
pub mod validate;
