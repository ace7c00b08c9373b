//! Quantities, times, units and text.

pub mod excerpt;
pub mod field_selector;
pub mod fingerprint;
pub mod json_text;
pub mod json_weight;
pub mod natural;
pub mod omissions;
pub mod prices;
pub mod quantity;
pub mod selector;
pub mod series;
pub mod text;
pub mod time;
pub mod units;
pub mod whole;
