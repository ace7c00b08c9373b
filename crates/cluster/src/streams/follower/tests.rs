//! Tests for `follower.rs`.

use super::*;
use proptest::prelude::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

proptest! {
    /// Every line must be returned exactly once, wherever the connection breaks.
    #[test]
    fn no_line_is_lost_or_repeated(steps in prop::collection::vec(0_i64..700, 1..60), breaks in prop::collection::vec(0_usize..60, 0..8)) {
        let mut time = 1_000;
        let lines: Vec<LogLine> = steps.iter().enumerate().map(|(index, step)| {
            time += step / 100 * 100;
            LogLine { at: Some(at(time)), text: index.to_string() }
        }).collect();
        let mut follower = Follower::default();
        let mut seen = Vec::new();
        let mut ends: Vec<usize> = breaks.iter().map(|end| end % (lines.len() + 1)).chain([lines.len()]).collect();
        ends.sort_unstable();
        for end in ends {
            follower.resume();
            let from = follower.since().map(|since| since.parse::<Timestamp>().unwrap());
            for line in lines[..end].iter().filter(|line| from.is_none_or(|from| line.at.unwrap() >= from)) {
                if follower.take(line) {
                    seen.push(line.text.clone());
                }
            }
        }
        prop_assert_eq!(seen, lines.into_iter().map(|line| line.text).collect::<Vec<_>>());
    }
}
