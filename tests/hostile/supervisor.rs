//! Tests hostile messages to a running supervisor, and the supervisor's ConfigMap after a
//! submission that was interrupted or tampered with.

mod fuzzing;
mod objects;
mod peers;
mod port;
