//! The workflow of reading. It finds Prometheus, reads what devices measure now and measured in the
//! past, and joins that with what the API server says. It renders nothing.

pub(crate) mod at_time;
pub(crate) mod blame;
pub(crate) mod checks;
pub(crate) mod curves;
pub(crate) mod deleted;
pub(crate) mod drain;
pub(crate) mod exporters;
pub(crate) mod first_error;
pub(crate) mod history;
pub(crate) mod hourly;
pub(crate) mod kept;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod metrics;
pub(crate) mod names;
pub(crate) mod nodes;
pub(crate) mod optional_metrics;
pub(crate) mod peers;
pub(crate) mod pools;
pub(crate) mod progress;
pub(crate) mod queues;
pub(crate) mod ranks;
mod sharing;
pub(crate) mod starts;
pub(crate) mod store_identity;
pub(crate) mod times;
pub(crate) mod training_telemetry;
pub(crate) mod watch;
pub(crate) mod why;
pub(crate) mod workloads;
