//! Groups of arguments that many verbs share.

pub mod columns;
pub mod container;
pub mod format;
pub mod list;
pub mod metrics;
pub mod submit;
pub mod time;
pub mod value;
