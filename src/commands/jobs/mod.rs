//! Commands about jobs.

pub mod attach;
pub mod copy;
pub mod delete;
pub mod describe;
pub mod events;
pub mod exec;
pub mod get;
pub mod logs;
pub mod open;
pub mod pause;
pub mod resume;
pub mod run;
pub mod scale;
