//! Renders what is known about gpuctl itself: settings, rights, version, schemas of answers.

pub mod answers;
pub mod bundle;
pub mod config;
pub mod health;
pub mod rights;
pub mod version;
