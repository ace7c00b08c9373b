//! Writes the objects of a job: checks, creates, changes and repairs them.

pub(crate) mod apply;
pub(crate) mod change;
pub(crate) mod changed_files;
pub(crate) mod companions;
pub(crate) mod effects;
pub(crate) mod keep_placement;
pub(crate) mod pod_check;
pub(crate) mod preflight;
pub(crate) mod preserve;
pub(crate) mod repair;
pub(crate) mod submit;
