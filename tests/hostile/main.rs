//! Attacks gpuctl through hostile names, files, logs, servers and roles. Each kind of attack has a
//! separate file. `SECURITY.md` defines the trust boundaries and lists the attacks in each file.
#![expect(clippy::disallowed_methods, reason = "tests arrange files and clocks")]

mod agents;
mod agents_previews;
mod agents_protocol;
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
