//! Reads what trainers, debuggers and NCCL print.

pub mod first_error;
pub mod progress;
pub mod ras;
pub mod stacks;
pub mod training;
