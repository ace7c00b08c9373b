//! Jobs in the queues of a real Kueue and of a real Volcano. `cargo reality --slow` runs them, for both take minutes to build, once. A
//! cluster of its own for each: Kueue's webhooks judge every Job and pod.

mod kueue;
#[path = "../runner/mod.rs"]
mod runner;
mod support;
mod volcano;
