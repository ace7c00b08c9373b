//! Formats durations in sentences.

use jiff::Timestamp;

/// Formats the time since `from`, such as `45 s`, `14 min`, `3 h` or `2 days`.
pub(super) fn time_since(from: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_second() - from.as_second()).max(0);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_unit() {
        let text = |seconds: i64| {
            let from = Timestamp::UNIX_EPOCH;
            time_since(from, Timestamp::from_second(seconds).unwrap())
        };
        let texts = [-5, 45, 240, 7199, 7200, 200_000].map(text);
        assert_eq!(texts, ["0 s", "45 s", "4 min", "119 min", "2 h", "2 days"]);
    }
}
