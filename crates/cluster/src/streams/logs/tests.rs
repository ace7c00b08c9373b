//! Tests for `logs.rs`.

use super::*;

#[test]
fn few_lines_take_little_memory() {
    let query = |tail| LogQuery {
        tail,
        ..LogQuery::default()
    };
    assert_eq!(
        [Some(10), Some(1000), Some(u32::MAX), None].map(|tail| query(tail).most_bytes() >> 20),
        [2, 15, 64, 64]
    );
}
