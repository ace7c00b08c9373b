//! Evaluates samples and logs: arithmetic, patterns, and the PromQL queries whose responses are
//! read here.

pub mod exporters;
pub mod history;
pub mod logs;
pub mod score;
