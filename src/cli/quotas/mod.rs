//! What can be typed about quotas.

pub mod describe;
pub mod get;
