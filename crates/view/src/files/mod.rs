//! Renders job files before submission: differences, checks, references and starters.

pub mod changes;
pub mod converted;
pub mod defaults;
pub mod reference;
pub mod starter;
pub mod validated;
