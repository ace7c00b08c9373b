//! Tests jobs in the queues of a real Kueue and a real Volcano, and services with a real
//! LeaderWorkerSet. `cargo reality --slow` runs these tests, because the first build of each system
//! takes minutes. Each has its own cluster, because Kueue's webhooks intercept every Job and pod.
#![expect(clippy::disallowed_methods, reason = "tests arrange files")]

mod admission;
mod groups;
#[path = "../runner/guide.rs"]
mod guide;
mod guides;
mod kueue;
#[path = "../runner/mod.rs"]
mod runner;
mod support;
mod volcano;
