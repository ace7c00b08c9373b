//! Renders job files before they are submitted: differences, checks, references and starters.

pub mod changes;
pub mod converted;
pub mod defaults;
pub mod reference;
pub mod starter;
pub mod validated;
