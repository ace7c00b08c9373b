//! Defines what clusters and scripts rely on. For clusters, these are labels, permissions and the
//! causes of refusals. For scripts, they are the results of submissions, deletions and `doctor`
//! checks.

pub mod check;
pub mod deletion;
pub mod labels;
pub mod refusal;
pub mod rights;
pub mod submission;
