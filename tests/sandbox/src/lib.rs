//! Starts a real Kubernetes control plane on this machine: etcd, API server, controller manager,
//! scheduler, kwok as the kubelet of simulated GPU nodes, kube-state-metrics and Prometheus.
//!
//! `cargo test`, `cargo sandbox` and the benchmarks use this crate. It does not depend on gpuctl:
//! its callers provide the binary under test.

pub mod binaries;
pub mod browser;
mod certificates;
mod cluster;
pub mod debian;
mod egress;
mod eventually;
pub mod exporter;
mod kubectl;
mod kueue;
pub mod load;
mod logs;
mod lws;
mod manifests;
pub mod node_requirements;
pub mod nodes;
mod parts;
mod persona;
mod process;
pub mod real_node;
mod stores;
mod tty;
mod unique;
mod volcano;
pub mod webhook;

pub use cluster::{AUDITED, Cluster, Options};
pub use eventually::{Attempt, eventually};
pub use kubectl::Kubectl;
pub use logs::PodLog;
pub use persona::Persona;
pub use real_node::{Hardware, RealNode};
pub use tty::Tty;
pub use unique::assert_unique;
