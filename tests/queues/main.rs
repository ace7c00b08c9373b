//! Jobs in the queues of a real Kueue and of a real Volcano, and services of a real
//! LeaderWorkerSet. `cargo reality --slow` runs them, for all take minutes to build, once. A
//! cluster of its own for each: Kueue's webhooks judge every Job and pod.
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
