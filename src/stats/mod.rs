//! What follows from samples and logs: which devices they are of, and what they come to. Arithmetic, patterns, and the text
//! of the queries whose answers are read here; asks nobody.

pub mod account;
pub mod ai_question;
pub mod devices;
pub mod dialect;
pub mod history;
pub mod hourly;
pub mod identity;
pub mod kube_state;
pub mod ledger;
pub mod limits;
pub mod machines;
pub mod opinion;
pub mod progress;
pub mod query;
pub mod score;
pub mod scored;
mod tenants;
pub mod training;
pub mod usage;
