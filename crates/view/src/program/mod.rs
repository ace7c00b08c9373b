//! Renders facts about gpuctl itself: settings, permissions, version, and schemas of its JSON
//! output.

pub mod answers;
pub mod bundle;
pub mod config;
pub mod health;
pub mod rights;
pub mod version;
