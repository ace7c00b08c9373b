//! gpuctl: GPU jobs on Kubernetes from a short YAML. Two flows make up the program:
//!
//! ```text
//! submit:   file ─spec─▶ documents ─render─▶ objects ─cluster::submit─▶ outcome ─view─▶ text
//! observe:  cluster ─▶ model (jobs, pods, nodes) ─stats─▶ figures ─view─▶ text
//! ```
//!
//! ARCHITECTURE.md says which module may know which; the modules follow in reading order.

pub mod cache;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod convert;
pub mod error;
pub mod files;
pub mod model;
pub mod outbound;
pub mod prometheus;
pub mod render;
pub mod serve;
pub mod spec;
pub mod stats;
pub mod terminal;
pub mod view;

pub use cli::run;
