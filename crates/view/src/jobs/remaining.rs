//! Renders the remaining time of a training.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::stats::logs::remaining::Remaining;

/// The estimated remaining time of a training in seconds. It is probably between the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemainingTime {
    seconds: u64,
    low_seconds: u64,
    high_seconds: u64,
}

impl From<Remaining> for RemainingTime {
    fn from(remaining: Remaining) -> Self {
        Self {
            seconds: whole(remaining.seconds.round()),
            low_seconds: whole(remaining.low.floor()),
            high_seconds: whole(remaining.high.ceil()),
        }
    }
}

impl RemainingTime {
    pub(super) fn seconds(self) -> u64 {
        self.seconds
    }

    /// Formats the interval, such as `2h 10m–2h 40m`, or one time if both bounds look the same.
    pub(super) fn text(self) -> String {
        let (low, high) = (text(self.low_seconds), text(self.high_seconds));
        match low == high {
            true => format!("~{low}"),
            false => format!("{low}–{high}"),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a remaining time is between 0 and a year"
)]
fn whole(seconds: f64) -> u64 {
    seconds.max(0.0) as u64
}

/// Formats a time with at most two units.
fn text(seconds: u64) -> String {
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit} {small}{small_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..3600 => format!("{}m", seconds / 60),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_two_units() {
        let shown = |low: f64, high: f64| {
            let seconds = f64::midpoint(low, high);
            RemainingTime::from(Remaining { seconds, low, high }).text()
        };
        assert_eq!(shown(7800.0, 9600.0), "2h 10m–2h 40m");
        assert_eq!(shown(42.0, 90.2), "42s–91s");
        assert_eq!(shown(600.0, 630.0), "~10m");
        assert_eq!(shown(7200.0, 100_000.0), "2h–1d 3h");
        assert_eq!(shown(0.0, 172_800.0), "0s–2d");
    }
}
