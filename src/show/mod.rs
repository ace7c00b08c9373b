//! Shows on the terminal what workflows report and return, for the commands that share it.

pub(crate) mod inputs;
pub(crate) mod reporter;
pub(crate) mod submission;
