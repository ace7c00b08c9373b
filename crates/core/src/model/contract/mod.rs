//! What gpuctl and clusters agree on: labels, rights, and causes of refusals.

pub mod labels;
pub mod refusal;
pub mod rights;
