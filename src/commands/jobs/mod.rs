//! Commands for jobs.

pub(crate) mod attach;
pub(crate) mod copy;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod get;
pub(crate) mod logs;
pub(crate) mod open;
pub(crate) mod pause;
pub(crate) mod restart;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod scale;
mod size;
pub(crate) mod wait;
pub(crate) mod why;
