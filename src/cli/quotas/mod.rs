//! What can be typed about quotas.

pub(crate) mod describe;
pub(crate) mod get;
