//! Determines which pods held the devices over a window, and the work of the devices.

pub mod allocation;
pub mod allocations;
pub mod blame;
pub(crate) mod cadence;
pub(crate) mod capacity;
pub mod claims;
pub mod collectors;
pub mod curves;
pub(crate) mod device_samples;
pub mod gpu_hours;
pub(crate) mod holders;
pub mod hourly;
pub mod job_time;
pub(crate) mod measured_work;
pub mod part_hours;
pub(crate) mod phases;
pub(crate) mod pod_records;
pub(crate) mod presence;
pub mod requested;
pub mod serving_hours;
pub mod slots;
pub mod starts;
pub mod top_owner;
pub mod usage;
pub mod workload_use;
