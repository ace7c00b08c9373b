//! The workflow of reading. It finds Prometheus, reads what devices measure now and measured in the past, and joins that
//! with what the API server says. It renders nothing.

pub mod at_time;
pub mod curves;
pub mod history;
pub mod hourly;
pub mod list;
pub mod metrics;
pub mod names;
pub mod nodes;
pub mod pools;
pub mod progress;
pub mod times;
pub mod training_telemetry;
pub mod watch;
pub mod workloads;
