//! Commands for the site's defaults.

pub(crate) mod describe;
pub(crate) mod get;
