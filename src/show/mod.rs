//! Prints the events and results of workflows, for several commands.

pub(crate) mod inputs;
pub(crate) mod reporter;
pub(crate) mod silence;
pub(crate) mod submission;
