//! Tests the gpuctl binary on a real node: behavior that depends on a kubelet, a container runtime
//! or a device plugin. Most tests share one cluster, and each has its own namespace.
//! `cargo reality` runs them.
#![expect(clippy::disallowed_methods, reason = "tests arrange files and clocks")]

mod chart;
mod endings;
mod image;
mod lost;
mod metrics;
mod node;
mod python;
mod recipes;
#[path = "../runner/mod.rs"]
mod runner;
mod security;
mod states;
mod support;
mod torch;
mod waiting;
mod why;
