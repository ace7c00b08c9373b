//! Reads logs, runs sessions in containers and forwards ports.

pub(crate) mod attach;
pub(crate) mod follow;
pub(crate) mod follower;
pub(crate) mod forward;
pub(crate) mod log_lines;
pub(crate) mod logs;
