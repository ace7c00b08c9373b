//! Renders utilization scores and the health of devices.

pub mod exposition;
pub mod gpu_health;
pub mod list;
pub mod message;
pub mod summary;
