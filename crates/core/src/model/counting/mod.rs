//! Counts devices, holders and free capacity, and computes which jobs fit.

pub mod admission;
pub mod candidates;
pub mod capacity;
pub(crate) mod cel_values;
pub mod consumer;
pub(crate) mod count;
pub(crate) mod device_allocator;
pub mod device_boards;
pub mod device_claims;
pub mod device_demand;
pub mod device_selector;
pub mod device_supply;
pub mod drain;
pub mod fit;
pub mod fit_reason;
pub mod forest;
pub mod free;
pub mod held_use;
pub(crate) mod host_tally;
pub mod inventory;
pub(crate) mod measured;
pub mod node_usage;
pub mod release;
mod reservations;
pub mod start;
pub mod stranded;
pub mod victims;
