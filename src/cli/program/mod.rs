//! What can be typed about the program itself.

pub mod completion;
pub mod config;
pub mod doctor;
pub mod man;
pub mod version;
