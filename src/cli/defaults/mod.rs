//! Arguments of commands for the site's defaults.

pub(crate) mod describe;
pub(crate) mod get;
