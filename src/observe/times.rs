//! Parses times on the command line: RFC 3339, Unix seconds or milliseconds, a duration before now
//! such as `2h`, or a word such as `yesterday`.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::values::quantity;
use gpuctl_prometheus::Window;

/// Number of points in a curve if the user sets no step.
const DEFAULT_POINTS: i64 = 1000;

/// Maximum number of points in a curve.
const MAX_POINTS: i64 = 200_000;

/// Minimum default step in seconds: no exporter measures more often.
const MIN_STEP: i64 = 15;

/// Time range and step of a curve, as given by the user.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeRange {
    pub start: Option<String>,
    pub end: Option<String>,
    pub step: Option<String>,
}

impl TimeRange {
    /// Reports invalid times before gpuctl sends any request.
    pub(crate) fn check(&self, now: Timestamp) -> Result<(), Error> {
        for text in [&self.start, &self.end].into_iter().flatten() {
            instant(text, now)?;
        }
        if self.start.is_some() {
            self.window(now, (now, now), None).map(|_| ())
        } else {
            Ok(())
        }
    }

    /// Resolves the range, by default the hour before the end.
    pub(crate) fn window_of_an_hour(
        &self,
        now: Timestamp,
        step: Option<i64>,
    ) -> Result<Window, Error> {
        let end = self
            .end
            .as_ref()
            .map_or(Ok(now), |text| instant(text, now))?;
        let start = end
            .checked_sub(SignedDuration::from_hours(1))
            .unwrap_or(end);
        self.window(now, (start, end), step)
    }

    /// Resolves the range and the step. The defaults are `default_range` and `step`, in seconds.
    pub(crate) fn window(
        &self,
        now: Timestamp,
        default_range: (Timestamp, Timestamp),
        step: Option<i64>,
    ) -> Result<Window, Error> {
        let resolve = |text: &Option<String>, default: Timestamp| {
            text.as_ref().map_or(Ok(default), |text| instant(text, now))
        };
        let (start, end) = (
            UnixSeconds::from(resolve(&self.start, default_range.0)?),
            UnixSeconds::from(resolve(&self.end, default_range.1)?),
        );
        if start > end {
            return Err(Error::usage("the start is after the end"));
        }
        let default_step =
            || step.unwrap_or_else(|| MIN_STEP.max((end - start).div_euclid(DEFAULT_POINTS) + 1));
        let step = match &self.step {
            None => default_step(),
            Some(text) => {
                let with_unit =
                    || quantity::duration(text).and_then(|span| i64::try_from(span.as_secs()).ok());
                let step = text
                    .parse()
                    .ok()
                    .or_else(with_unit)
                    .filter(|step| *step > 0);
                step.ok_or_else(|| {
                    Error::usage(format!("`{text}` is not a valid step"))
                        .hint("use a step such as 60, 30s or 5m")
                })?
            }
        };
        // A step longer than the range yields one point in any case, so shorten it to the range.
        let step = step.min((end - start).max(1));
        if (end - start) / step > MAX_POINTS {
            return Err(
                Error::usage(format!("{} points exceed the limit", (end - start) / step))
                    .hint("use a larger `--step`"),
            );
        }
        Ok(Window { start, end, step })
    }
}

/// Maximum length of a past range in seconds (two years).
const MAX_RANGE_SECONDS: i64 = 2 * 366 * 86_400;

/// Default length of a past range in seconds.
const DAY_SECONDS: i64 = 86_400;

/// Resolves a past range, by default the last day. Cuts off the part in the future.
pub(crate) fn past(
    start: Option<&str>,
    end: Option<&str>,
    now: Timestamp,
) -> Result<(UnixSeconds, UnixSeconds), Error> {
    let resolve = |text: Option<&str>, default| {
        text.map_or(Ok(default), |text| {
            instant(text, now).map(UnixSeconds::from)
        })
    };
    let end = resolve(end, now.into())?;
    let start = resolve(start, end - DAY_SECONDS)?;
    if start > end {
        return Err(Error::usage("the start is after the end"));
    }
    if end - start > MAX_RANGE_SECONDS {
        // A longer range would take too long to read.
        return Err(Error::usage("the range is longer than two years").hint("use a later start"));
    }
    Ok((start, end.min(now.into())))
}

/// Parses a time as described in the module header.
pub(crate) fn instant(text: &str, now: Timestamp) -> Result<Timestamp, Error> {
    let number = text.parse::<i64>().ok();
    let time = match number {
        // Unix times with 13 digits are in milliseconds.
        Some(number) if text.len() >= 13 => Timestamp::from_millisecond(number).ok(),
        Some(number) => Timestamp::from_second(number).ok(),
        None => parse_keyword(text, now)
            .or_else(|| parse_relative(text, now))
            .or_else(|| text.parse().ok())
            .or_else(|| parse_local(text)),
    };
    time.ok_or_else(|| {
        Error::usage(format!("`{text}` is not a valid time")).hint(
            "use a time such as 2026-01-31T10:00:00Z, 2026-01-31, 2026-01 (the start of the month), \
             1769853600, 90m (before now), today, yesterday or month (the start of this month)",
        )
    })
}

/// Returns the offset of local time from UTC in seconds at a time.
pub(crate) fn local_offset(at: UnixSeconds) -> i64 {
    let offset = TimeZone::system().to_offset(at.timestamp());
    i64::from(offset.seconds())
}

fn parse_keyword(text: &str, now: Timestamp) -> Option<Timestamp> {
    let today = now.to_zoned(TimeZone::system()).start_of_day().ok()?;
    match text {
        "now" => Some(now),
        "today" => Some(today.timestamp()),
        "month" => Some(today.first_of_month().ok()?.timestamp()),
        "yesterday" => Some(today.checked_sub(1.day()).ok()?.timestamp()),
        _ => None,
    }
}

fn parse_relative(text: &str, now: Timestamp) -> Option<Timestamp> {
    // `-2h` and `2h ago` mean the same as `2h`.
    let span = quantity::duration(text.trim_start_matches('-').trim_end_matches(" ago"))?;
    now.checked_sub(SignedDuration::try_from(span).ok()?).ok()
}

/// Parses a month, a date, or a date and time, in the local time zone.
fn parse_local(text: &str) -> Option<Timestamp> {
    let time: jiff::civil::DateTime = text.parse().ok().or_else(|| {
        text.parse::<jiff::civil::Date>()
            .ok()
            .or_else(|| format!("{text}-01").parse::<jiff::civil::Date>().ok())
            .map(jiff::civil::DateTime::from)
    })?;
    Some(time.to_zoned(TimeZone::system()).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_form_of_a_time() {
        let now = Timestamp::from_second(1_769_853_600).unwrap();
        let second = |text: &str| instant(text, now).unwrap().as_second();
        assert_eq!(second("2026-01-31T10:00:00Z"), 1_769_853_600);
        assert_eq!(
            (second("1769853600"), second("1769853600000")),
            (1_769_853_600, 1_769_853_600)
        );
        assert_eq!(
            (second("90m"), second("1h30m"), second("now")),
            (1_769_848_200, 1_769_848_200, 1_769_853_600)
        );
        let day = second("today") - second("yesterday");
        assert!(
            (82_800..=90_000).contains(&day),
            "a day has 23 to 25 hours: {day}"
        );
        assert_eq!(second("2026-01"), second("2026-01-01"));
        assert_eq!(second("month"), second("2026-01"));
        for invalid in [
            "",
            "soon",
            "1x",
            "2026-13-01",
            "2026-13",
            "99999999999999999999",
        ] {
            assert!(instant(invalid, now).is_err(), "{invalid}");
        }
    }

    fn window(start: i64, end: i64, step: i64) -> Window {
        Window {
            start: UnixSeconds(start),
            end: UnixSeconds(end),
            step,
        }
    }

    #[test]
    fn windows_have_a_suitable_step() {
        let now = Timestamp::from_second(100_000).unwrap();
        let resolve = |start: &str, step: Option<&str>| {
            let range = TimeRange {
                start: Some(start.into()),
                end: None,
                step: step.map(ToOwned::to_owned),
            };
            range.window(now, (now, now), None)
        };
        assert_eq!(resolve("1h", None).unwrap(), window(96_400, 100_000, 15));
        assert_eq!(resolve("0", None).unwrap().step, 101);
        assert_eq!(
            (
                resolve("1h", Some("5m")).unwrap().step,
                resolve("1h", Some("60")).unwrap().step
            ),
            (300, 60)
        );
        assert!(resolve("1h", Some("0")).is_err() && resolve("100001", None).is_err());
        assert_eq!(
            resolve("1h", Some("9223372036854775807")).unwrap().step,
            3600
        );
        let too_many_points = TimeRange {
            start: Some("0".into()),
            end: None,
            step: Some("1".into()),
        };
        assert!(
            too_many_points
                .window(
                    Timestamp::from_second(1_700_000_000).unwrap(),
                    (
                        Timestamp::UNIX_EPOCH,
                        Timestamp::from_second(1_700_000_000).unwrap()
                    ),
                    None
                )
                .is_err()
        );
        let until_two_hours_ago = TimeRange {
            start: None,
            end: Some("2h".into()),
            step: None,
        };
        assert_eq!(
            until_two_hours_ago
                .window_of_an_hour(now, Some(60))
                .unwrap(),
            window(89_200, 92_800, 60)
        );
    }
}
