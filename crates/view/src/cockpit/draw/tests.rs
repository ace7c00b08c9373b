//! Tests that the lists of keys fit the terminal.

use super::*;
use crate::cockpit::keys::HELP;

#[test]
fn keys_are_never_cut() {
    for width in 0..120 {
        let text = whole_keys(width);
        assert!(text.width() <= width, "{text}");
        let keys: Vec<&str> = KEYS.split("  ").collect();
        let shown = text.trim_start().split("  ");
        assert!(text.is_empty() || shown.zip(keys).all(|(a, b)| a == b));
    }
    assert!(whole_keys(80).ends_with("e exec"));
}

#[test]
fn the_help_fits_80_columns() {
    let widest = HELP.iter().map(|(_, action)| action.width() + 16).max();
    assert!(widest.is_some_and(|width| width <= 80), "{widest:?}");
}
