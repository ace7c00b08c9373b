//! The interfaces between gpuctl and clusters (labels, rights, causes of refusals) and between
//! gpuctl and scripts (results of submissions, deletions and the checks of `doctor`).

pub mod check;
pub mod deletion;
pub mod labels;
pub mod refusal;
pub mod rights;
pub mod submission;
