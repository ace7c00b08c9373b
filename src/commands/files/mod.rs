//! Commands for job files and other documents.

pub(crate) mod apply;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod init;
pub(crate) mod schema;
pub(crate) mod validate;
