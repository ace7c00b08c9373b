//! Names and formats that clusters and scripts rely on: labels, permissions, recognized error
//! messages, and the JSON results of submissions, deletions and `doctor`.

pub mod check;
pub mod deletion;
pub mod labels;
pub mod refusal;
pub mod rights;
pub mod submission;
