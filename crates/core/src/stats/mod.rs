//! What follows from samples and logs: arithmetic, patterns, and the PromQL whose answers are read
//! here.

pub mod exporters;
pub mod history;
pub mod logs;
pub mod score;
