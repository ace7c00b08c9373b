//! Renders what is known about a job file before it is submitted.

pub mod changes;
pub mod converted;
pub mod defaults;
pub mod reference;
pub mod starter;
pub mod validated;
