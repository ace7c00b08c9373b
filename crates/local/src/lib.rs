//! Reads, writes and runs everything that gpuctl needs on the user's machine, and hides the
//! differences between operating systems.
#![warn(unreachable_pub)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod bundle;
pub mod cache;
pub mod files;
pub mod in_flight;
pub mod kuberc;
pub mod platform;
pub mod program_output;
pub mod request_log;
