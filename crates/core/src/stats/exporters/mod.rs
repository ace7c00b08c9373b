//! Names of exporters' metrics and labels, the queries for them, and the identification of devices.

pub mod cluster_labels;
pub(crate) mod device_numbers;
pub mod devices;
pub mod dialect;
pub mod exported_metrics;
pub mod exposition;
pub mod faults;
pub mod identity;
pub mod kube_state;
pub mod limits;
pub mod membership;
pub mod node_exporter;
pub mod node_index;
pub mod node_traits;
pub mod parts;
pub mod query;
pub mod recorded;
pub mod replicas;
mod targets;
pub mod xid;
pub mod xid_history;
