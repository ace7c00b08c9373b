//! Commands about quotas.

pub mod describe;
pub mod get;
