//! The real binary on a real node: everything that a kubelet, a container runtime or a device
//! plugin decides. One cluster for all tests of this file, a namespace of its own for each. `cargo
//! reality` runs them.
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
