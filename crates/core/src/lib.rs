//! Domain types of gpuctl and the arithmetic on them. This crate does no input or output.
//!
//! - `model`: nodes, devices, jobs, queues, and the arithmetic on them
//! - `stats`: metrics of exporters, histories, scores, training logs
//! - `protobuf`: the wire format of protobuf, without message definitions
//! - `error`: kind, name, message, causes and hints of a failure
#![warn(unreachable_pub)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod error;
pub mod model;
pub mod protobuf;
pub mod stats;
