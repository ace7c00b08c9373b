//! What gpuctl and clusters agree on: labels, rights, and causes of refusals. What gpuctl and scripts agree
//! on: the answers to a submission, a deletion and the checks of `doctor`.

pub mod check;
pub mod deletion;
pub mod labels;
pub mod refusal;
pub mod rights;
pub mod submission;
