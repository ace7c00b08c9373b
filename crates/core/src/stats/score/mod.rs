//! Evaluates devices: utilization scores, health, bottlenecks and outliers.

pub mod ai_question;
pub mod bottlenecks;
pub mod gpu_health;
pub mod node_health;
pub mod opinion;
pub mod own_power;
pub mod peers;
pub mod pod_devices;
pub mod selection;
pub mod serving;
pub mod value;
