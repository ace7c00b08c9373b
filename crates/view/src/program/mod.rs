//! Renders settings, permissions and the version of gpuctl, and the schemas of its JSON output.

pub mod answers;
pub mod bundle;
pub mod config;
pub mod health;
pub mod rights;
pub mod version;
