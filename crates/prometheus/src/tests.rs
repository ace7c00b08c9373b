//! Tests the time windows of queries.

use super::*;

#[test]
fn long_windows_split_without_gaps() {
    let window = Window {
        start: UnixSeconds(100),
        end: UnixSeconds(100 + 25_000 * 15),
        step: 15,
    };
    let pieces = window.pieces();
    assert_eq!(pieces.len(), 3);
    let points: Vec<i64> = pieces
        .iter()
        .flat_map(|piece| {
            (piece.start.0..=piece.end.0).step_by(usize::try_from(piece.step).unwrap())
        })
        .collect();
    let expected: Vec<i64> = (window.start.0..=window.end.0).step_by(15).collect();
    assert_eq!(points, expected);
    assert!(
        pieces
            .iter()
            .all(|piece| (piece.end - piece.start) / piece.step < MOST_POINTS)
    );
    let instant = Window {
        start: UnixSeconds(5),
        end: UnixSeconds(5),
        step: 60,
    };
    assert_eq!(instant.pieces(), [instant]);
}
