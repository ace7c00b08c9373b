//! GPU metrics in gpuctl's output, from a real Prometheus that scrapes an exporter with known
//! values, and a real control plane. Each statistic is compared with arithmetic that is written out
//! here.
#![expect(clippy::disallowed_methods, reason = "tests arrange files and clocks")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "times and counts in tests are small"
)]

mod blame;
mod bundle;
mod capacity;
mod changed_devices;
mod clusters;
mod cockpit;
mod custom_owners;
mod deleted;
mod delivery;
mod deployed;
mod device_kinds;
mod devices;
mod dialects;
mod exporter_pods;
mod faults;
mod finding;
#[path = "../runner/guide.rs"]
mod guide;
mod guides;
mod health;
mod history;
mod hostile;
mod managed;
mod mock_server;
mod node_names;
mod outbound;
mod partitioned_history;
mod past;
mod past_jobs;
mod picture;
mod recorded;
mod remote_read;
#[path = "../runner/mod.rs"]
mod runner;
mod score;
mod serving_history;
mod starts;
mod support;
mod terms;
mod torn_scrapes;
mod watch;
mod why;
mod workloads;
mod young_store;
