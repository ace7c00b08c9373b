//! Groups of arguments that many verbs share.

pub mod columns;
pub mod container;
pub mod format;
pub mod metrics;
pub mod page;
pub mod submit;
pub mod time;
pub mod value;
