//! gpuctl: GPU jobs on Kubernetes from a short YAML. Two flows make up the program:
//!
//! ```text
//! submit:   file ─spec─▶ documents ─render─▶ objects ─cluster::submit─▶ outcome ─view─▶ text
//! observe:  cluster ─▶ model (jobs, pods, nodes) ─stats─▶ figures ─view─▶ text
//! ```
//!
//! ARCHITECTURE.md says which module may know which; the modules follow in reading order.

pub mod model;
pub mod spec;
pub mod render;
pub mod stats;
pub mod view;
pub mod cluster;
pub mod error;
pub mod config;
pub mod terminal;
pub mod cli;

pub use cli::run;
