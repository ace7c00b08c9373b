//! Evaluates samples and logs. It contains the arithmetic, the patterns, and the PromQL queries
//! whose results it parses.

pub mod exporters;
pub mod history;
pub mod logs;
pub mod score;
