//! Evaluates samples and logs: arithmetic, patterns, and the PromQL whose results it parses.

pub mod exporters;
pub mod history;
pub mod logs;
pub mod score;
