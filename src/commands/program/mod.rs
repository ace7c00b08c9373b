//! Commands for gpuctl itself.

pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod options;
pub(crate) mod version;
