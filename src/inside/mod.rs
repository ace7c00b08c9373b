//! The workflow of getting into the containers of a job.

pub mod choice;
pub mod session;
