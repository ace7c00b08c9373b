//! Jobs in the queues of a real Kueue and a real Volcano, and services of a real LeaderWorkerSet.
//! `cargo reality --slow` runs these tests, because each system takes minutes to build, once. Each
//! has a separate cluster, because Kueue's webhooks check every Job and pod.
#![expect(clippy::disallowed_methods, reason = "tests arrange files")]

mod groups;
#[path = "../runner/guide.rs"]
mod guide;
mod guides;
mod kueue;
#[path = "../runner/mod.rs"]
mod runner;
mod support;
mod volcano;
