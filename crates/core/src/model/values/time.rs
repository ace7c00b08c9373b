//! Unix time in seconds, the unit of times in Prometheus queries. Results of queries are in Unix
//! milliseconds (`Point::at`), and times from the API server or for display are `Timestamp`s. A
//! separate type prevents confusing them.

use std::fmt;
use std::ops::{Add, Sub};

use jiff::Timestamp;

/// Seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixSeconds(pub i64);

impl UnixSeconds {
    /// Later than every other time.
    pub const NEVER: Self = Self(i64::MAX);

    pub fn millis(self) -> i64 {
        self.0.saturating_mul(1000)
    }

    /// Converts to a calendar time, or to the Unix epoch if the value is out of range.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_second(self.0).unwrap_or_default()
    }

    /// Returns the number of complete periods of this length since the Unix epoch.
    pub fn spans_of(self, seconds: i64) -> i64 {
        self.0.div_euclid(seconds)
    }
}

impl From<Timestamp> for UnixSeconds {
    fn from(at: Timestamp) -> Self {
        Self(at.as_second())
    }
}

impl fmt::Display for UnixSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Add<i64> for UnixSeconds {
    type Output = Self;

    fn add(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }
}

impl Sub<i64> for UnixSeconds {
    type Output = Self;

    fn sub(self, seconds: i64) -> Self {
        Self(self.0.saturating_sub(seconds))
    }
}

/// Computes the difference in seconds.
impl Sub for UnixSeconds {
    type Output = i64;

    fn sub(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_convert_to_milliseconds_and_timestamps() {
        let noon = UnixSeconds(1_767_268_800);
        assert_eq!(
            (noon.millis(), noon.timestamp().to_string()),
            (1_767_268_800_000, "2026-01-01T12:00:00Z".to_owned())
        );
        assert_eq!(
            ((noon + 60) - noon, noon - 3600, noon.spans_of(3600)),
            (60, UnixSeconds(1_767_265_200), 490_908)
        );
        assert_eq!(UnixSeconds::from(noon.timestamp()), noon);
        assert!(UnixSeconds::NEVER > noon && UnixSeconds::NEVER.millis() == i64::MAX);
    }
}
