//! The real binary against a real control plane: one cluster for all tests of this file, a
//! namespace and a pool of its own for each. What gpuctl says is compared with what kubectl sees.
#![expect(clippy::disallowed_methods, reason = "tests arrange files and clocks")]

mod applying;
mod auth;
mod claims;
mod cockpit;
mod copy;
mod create;
mod cuts;
mod defaults;
mod delete;
mod doctor;
mod encodings;
mod error_messages;
mod fit;
mod free;
mod impossible;
mod labels;
mod list;
mod logs;
mod mcp;
mod nodes;
mod notebooks;
mod objects;
mod plugin;
mod pools;
mod proxy;
mod quotas;
mod read_only;
mod refusals;
mod rendezvous;
mod renewing;
mod rights;
mod run;
#[path = "../runner/mod.rs"]
mod runner;
mod secrets;
mod services;
mod sessions;
mod shapes;
mod spoiled;
mod spoken;
mod states;
mod support;
mod volumes;
mod waiting;
mod why;
