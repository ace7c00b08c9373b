//! Opens interactive sessions in the containers of a job.

pub(crate) mod choice;
pub(crate) mod session;
