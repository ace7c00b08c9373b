//! Shows on the terminal what workflows report and return. Several commands share this code.

pub(crate) mod inputs;
pub(crate) mod reporter;
pub(crate) mod submission;
