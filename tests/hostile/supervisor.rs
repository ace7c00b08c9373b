//! Hostile messages to a running supervisor, and its ConfigMap after an interrupted or tampered
//! submission.

mod fuzzing;
mod objects;
mod peers;
mod port;
