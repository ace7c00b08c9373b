//! Groups the hours of a report into the bars of its plot over time. Bars begin at full hours, days
//! or weeks of the reader's time zone.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::report::{GpuHourReport, HourPoint};

/// Maximum number of bars. If there are more hours, several share a bar.
const MOST_BARS: usize = 62;
/// Lengths of bars in hours. Each up to a day divides a day.
const LENGTHS: [u32; 8] = [1, 2, 3, 4, 6, 12, DAY, WEEK];
const DAY: u32 = 24;
const WEEK: u32 = 7 * DAY;
/// Maximum number of dates below the plot.
const MOST_DATES: usize = 9;

/// The sums of one bar, in GPU-hours.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TimeBar {
    pub used: f64,
    pub wasted: f64,
    pub unknown: f64,
    /// The date below the bar. Empty for most bars.
    pub date: String,
}

/// The bars of a plot over time.
pub(crate) struct TimeBars {
    pub bars: Vec<TimeBar>,
    /// The length of a bar in hours.
    pub length: u32,
    /// Whether the window cuts the first or the last bar.
    pub is_cut: bool,
}

impl TimeBars {
    pub(crate) fn new(report: &GpuHourReport<'_>, zone: &TimeZone) -> Self {
        let hours = report.over_time.len();
        let fits = |length: &&u32| hours.div_ceil(**length as usize) < MOST_BARS;
        let mut length = LENGTHS.iter().find(fits).copied().unwrap_or(WEEK);
        while hours.div_ceil(length as usize) >= MOST_BARS {
            length *= 2;
        }
        let mut bars: Vec<(DateTime, TimeBar)> = Vec::new();
        for point in &report.over_time {
            let begin = bar_begin(time_of(point, report.from), zone, length);
            match bars.last_mut() {
                Some((last, bar)) if *last == begin => bar.add(point),
                _ => {
                    let mut bar = TimeBar::default();
                    bar.add(point);
                    bars.push((begin, bar));
                }
            }
        }
        let is_cut = |time: Timestamp| {
            let local = time.to_zoned(zone.clone()).datetime();
            local != bar_begin(time, zone, length)
        };
        add_dates(&mut bars, length);
        Self {
            bars: bars.into_iter().map(|(_, bar)| bar).collect(),
            length,
            is_cut: is_cut(report.from) || is_cut(report.to),
        }
    }

    /// Names the length of a bar, such as `3 hours`, `day` or `2 weeks`.
    pub(crate) fn length_name(&self) -> String {
        let (count, unit) = match self.length {
            length if length % WEEK == 0 => (length / WEEK, "week"),
            length if length % DAY == 0 => (length / DAY, "day"),
            length => (length, "hour"),
        };
        match count {
            1 => unit.to_owned(),
            count => format!("{count} {unit}s"),
        }
    }
}

impl TimeBar {
    fn add(&mut self, hour: &HourPoint) {
        self.used += hour.used;
        self.unknown += hour.unknown;
        self.wasted += (hour.held - hour.used - hour.unknown).max(0.0);
    }
}

/// The begin of an hour of the report. All but the first begin at a full hour.
fn time_of(point: &HourPoint, from: Timestamp) -> Timestamp {
    if point.hour == 0 {
        return from;
    }
    let first_hour = from.as_second().div_euclid(3600);
    Timestamp::from_second((first_hour + i64::from(point.hour)) * 3600).unwrap_or(from)
}

/// The begin of the bar that contains a time, on the clock of the zone. If the offset of the zone
/// is not a full hour, an hour can overlap two bars. It then counts in the earlier one.
fn bar_begin(time: Timestamp, zone: &TimeZone, length: u32) -> DateTime {
    let local = time.to_zoned(zone.clone()).datetime();
    let date = local.date();
    if length < DAY {
        let length = i8::try_from(length).unwrap_or(1);
        return date.at(local.hour() / length * length, 0, 0, 0);
    }
    // Bars of several days begin on Mondays. The first Monday after the Unix epoch is 1970-01-05.
    let monday = DateTime::constant(1970, 1, 5, 0, 0, 0, 0).date();
    let days = monday.until(date).map_or(0, |span| span.get_days());
    let length = i32::try_from(length / DAY).unwrap_or(1);
    let begin = days.div_euclid(length) * length;
    let start = monday.checked_add(begin.days()).unwrap_or(date);
    start.at(0, 0, 0, 0)
}

/// Writes dates below some of the bars: below midnights if there are several, or else below bars at
/// equal distances.
fn add_dates(bars: &mut [(DateTime, TimeBar)], length: u32) {
    let midnights: Vec<usize> = (0..bars.len())
        .filter(|index| bars[*index].0.hour() == 0)
        .collect();
    let chosen = if midnights.len() > 2 {
        midnights
    } else {
        (0..bars.len()).collect()
    };
    let step = chosen.len().div_ceil(MOST_DATES).max(1);
    for index in chosen.into_iter().step_by(step) {
        let (begin, bar) = &mut bars[index];
        let is_midnight = begin.hour() == 0 || length >= DAY;
        let format = if is_midnight {
            "%-d %b"
        } else {
            "%-d %b %H:%M"
        };
        bar.date = begin.strftime(format).to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::report::Group;

    fn report(from: &str, hours: u32) -> GpuHourReport<'static> {
        let from: Timestamp = from.parse().unwrap();
        // In each hour, 2 GPU-hours were held, 1 was used and 0.5 was not measured.
        let over_time = (0..hours)
            .map(|hour| HourPoint {
                hour,
                held: 2.0,
                used: 1.0,
                unknown: 0.5,
            })
            .collect();
        GpuHourReport {
            to: from + i64::from(hours).hours(),
            over_time,
            ..GpuHourReport::new(from, Vec::new(), Group::default())
        }
    }

    fn dates(bars: &TimeBars) -> Vec<&str> {
        let dates = bars.bars.iter().map(|bar| bar.date.as_str());
        dates.filter(|date| !date.is_empty()).collect()
    }

    #[test]
    fn a_week_has_bars_of_three_hours_and_a_date_per_day() {
        let bars = TimeBars::new(&report("2026-11-20T00:00:00Z", 168), &TimeZone::UTC);
        // 168 hours / 3 = 56 bars. In each bar: used 3, not measured 1.5, wasted 6 - 3 - 1.5 = 1.5.
        assert_eq!((bars.length, bars.bars.len(), bars.is_cut), (3, 56, false));
        assert_eq!(bars.length_name(), "3 hours");
        let TimeBar {
            used,
            wasted,
            unknown,
            ..
        } = &bars.bars[0];
        assert_eq!((*used, *wasted, *unknown), (3.0, 1.5, 1.5));
        assert_eq!(
            dates(&bars),
            [
                "20 Nov", "21 Nov", "22 Nov", "23 Nov", "24 Nov", "25 Nov", "26 Nov"
            ]
        );
    }

    #[test]
    fn bars_begin_at_local_midnights_and_name_their_length() {
        // 19:30 UTC is 00:30 on the next day at UTC+05:00.
        let zone = jiff::tz::offset(5).to_time_zone();
        let bars = TimeBars::new(&report("2026-11-19T19:30:00Z", 24 * 50), &zone);
        // 50 days from 00:30 make bars on 51 local days.
        assert_eq!((bars.length_name().as_str(), bars.is_cut), ("day", true));
        assert_eq!(dates(&bars)[0], "20 Nov");
        assert!(dates(&bars).len() <= MOST_DATES);
        let year = TimeBars::new(&report("2026-01-01T00:00:00Z", 24 * 365), &TimeZone::UTC);
        // 2026-01-01 is a Thursday, so the first week is cut.
        assert_eq!((year.length_name().as_str(), year.is_cut), ("week", true));
        let years = TimeBars::new(
            &report("2020-01-01T00:00:00Z", 24 * 365 * 5),
            &TimeZone::UTC,
        );
        assert_eq!(years.length_name(), "8 weeks");
        assert!(years.bars.len() <= MOST_BARS);
    }

    #[test]
    fn a_few_hours_have_times_below_the_bars() {
        let bars = TimeBars::new(&report("2026-11-20T22:00:00Z", 4), &TimeZone::UTC);
        assert_eq!(bars.length_name(), "hour");
        assert_eq!(
            dates(&bars),
            ["20 Nov 22:00", "20 Nov 23:00", "21 Nov", "21 Nov 01:00"]
        );
        assert!(
            TimeBars::new(&report("2026-11-20T22:00:00Z", 0), &TimeZone::UTC)
                .bars
                .is_empty()
        );
    }
}
