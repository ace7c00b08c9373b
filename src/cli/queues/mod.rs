//! What can be typed about queues.

pub(crate) mod describe;
pub(crate) mod get;
