//! What follows from samples and logs: arithmetic, patterns, and the PromQL whose answers are read here.

pub(crate) mod ai_question;
pub(crate) mod allocations;
pub(crate) mod blame;
pub(crate) mod collectors;
pub(crate) mod device_numbers;
pub(crate) mod devices;
pub mod dialect;
pub(crate) mod first_error;
pub(crate) mod gpu_health;
pub(crate) mod gpu_hours;
pub(crate) mod history;
mod holders;
pub(crate) mod hourly;
pub(crate) mod identity;
pub mod kube_state;
pub(crate) mod limits;
pub(crate) mod node_exporter;
pub(crate) mod opinion;
pub(crate) mod peers;
pub(crate) mod progress;
pub mod query;
pub(crate) mod score;
pub(crate) mod scored;
pub(crate) mod starts;
pub(crate) mod training;
pub(crate) mod usage;
