//! Attacks on gpuctl, repeated: names, files, logs, servers and roles that somebody hostile
//! controls. One file for each kind of attack; `SECURITY.md` lists what is trusted and what each
//! file tries.
#![expect(clippy::disallowed_methods, reason = "tests arrange files and clocks")]

mod agents;
mod agents_previews;
mod bounds;
mod cluster_data;
mod completion;
mod copying;
mod local_files;
mod roles;
#[path = "../runner/mod.rs"]
mod runner;
mod secrets;
mod supervisor;
mod support;
mod user_files;
