//! What follows from a job's samples and logs. Arithmetic and patterns; asks nobody.

pub mod progress;
