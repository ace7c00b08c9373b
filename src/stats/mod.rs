//! What follows from samples and logs: which devices they are of, and what they come to. Arithmetic, patterns, and the text
//! of the queries whose answers are read here; asks nobody.

pub mod ai_question;
pub mod allocations;
pub mod device_numbers;
pub mod devices;
pub mod dialect;
pub mod gpu_hours;
pub mod history;
mod holders;
pub mod hourly;
pub mod identity;
pub mod kube_state;
pub mod limits;
pub mod node_exporter;
pub mod opinion;
pub mod progress;
pub mod query;
pub mod score;
pub mod scored;
pub mod training;
pub mod usage;
