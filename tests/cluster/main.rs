//! Runs the real binary against real control planes and compares its output with kubectl's. Most
//! tests share one cluster, each with its own namespace and pool. Some tests start their own
//! cluster, because they stop parts of it, count all of its requests, or need other options.
#![expect(clippy::disallowed_methods, reason = "tests arrange files and clocks")]

mod all_contexts;
mod applying;
mod auth;
mod autoscaling;
mod broken_responses;
mod causes;
mod claims;
mod cockpit;
mod copies;
mod copy;
mod create;
mod cuts;
mod defaults;
mod delete;
mod devices;
mod doctor;
mod encodings;
mod error_messages;
mod examples;
mod exit_codes;
mod first_hour;
mod fit;
mod fit_volumes;
mod fleet;
mod free;
mod gangs;
#[path = "../runner/guide.rs"]
mod guide;
mod guides;
mod impossible;
mod kubectl_options;
mod labels;
mod list;
mod logs;
mod mcp;
mod namespaces;
mod nodes;
mod notebooks;
mod numbers;
mod objects;
mod outages;
mod plugin;
mod pools;
mod proxy;
mod quotas;
mod read_only;
mod refusals;
mod rendezvous;
mod renewing;
mod request_counts;
mod request_log;
mod rights;
mod run;
#[path = "../runner/mod.rs"]
mod runner;
mod running_again;
mod secrets;
mod selected_output;
mod selecting;
mod services;
mod sessions;
mod several_jobs;
mod shapes;
mod shells;
mod shorthand;
mod states;
mod supervisor;
mod support;
mod volumes;
mod waiting;
mod waiting_for_jobs;
mod why;
mod why_all;
