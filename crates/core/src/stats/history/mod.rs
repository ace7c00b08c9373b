//! Who held which device during a window, and what the device did.

pub mod allocations;
pub mod blame;
pub mod collectors;
pub mod curves;
pub mod gpu_hours;
pub(crate) mod holders;
pub mod hourly;
pub mod job_time;
pub mod part_hours;
pub(crate) mod phases;
pub mod requested;
pub mod serving_hours;
pub mod starts;
pub mod top_owner;
pub mod usage;
