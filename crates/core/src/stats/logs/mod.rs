//! Parses the output of trainers, debuggers and NCCL.

mod bars;
pub mod first_error;
pub mod phases;
pub mod progress;
pub mod ras;
pub mod remaining;
pub mod stacks;
pub mod steps;
pub mod training;
