//! The workflow of writing: inputs are read, planned, decided, written and waited for; pools and quotas as well. It knows
//! nothing of clap.

pub mod decide;
pub mod delete;
pub mod errors;
pub mod execute;
pub mod inputs;
pub mod interrupt;
pub mod names;
pub mod options;
pub mod plan;
pub mod pool_labels;
pub mod pool_rules;
pub mod pools;
pub mod quotas;
pub mod shared;
pub mod size;
pub mod submit;
pub mod wait;
