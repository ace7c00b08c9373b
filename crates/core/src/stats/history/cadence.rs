//! Intervals between the samples of one series, which can change within a window.

use super::slots::{LONGEST_SLOT, most_common};

/// Consecutive samples without a gap, in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleRun {
    pub(super) start: i64,
    /// Time of the last sample.
    pub(super) last: i64,
    /// One interval after the last sample: a sample stands for the time until the next one.
    pub(super) end: i64,
}

/// Returns the usual interval between ascending times in milliseconds. A single gap of more than
/// [`LONGEST_SLOT`] does not prove an interval, because it may be an outage.
pub(super) fn usual(times: &[i64]) -> Option<i64> {
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let interval = most_common(gaps)?;
    Some(if times.len() < 3 {
        interval.min(LONGEST_SLOT)
    } else {
        interval
    })
}

/// Whether a gap is too long for one late or lost scrape.
pub(super) fn is_gap(length: i64, interval: i64) -> bool {
    length > interval * 5 / 2
}

/// Returns the interval that applies after each of the ascending times. It is `usual`, except where
/// two or more neighboring gaps have another length in common, as after a change of the scrape
/// interval. The last sample before an outage or a lost scrape has the interval of the one before.
pub(super) fn intervals(times: &[i64], usual: i64) -> Vec<i64> {
    let gap = |index: usize| Some(times.get(index + 1)? - times.get(index)?);
    let local = |index: usize, length: i64, before: i64| {
        if is_similar(length, usual) {
            return usual;
        }
        let same = |other: Option<i64>| other.is_some_and(|other| is_similar(other, length));
        let repeats = same(gap(index + 1)) || same(index.checked_sub(1).and_then(gap));
        if repeats && length <= LONGEST_SLOT {
            // Scrape times vary by some milliseconds.
            ((length + 500) / 1000 * 1000).max(1)
        } else {
            before
        }
    };
    let mut before = usual;
    (0..times.len())
        .map(|index| {
            before = gap(index).map_or(before, |length| local(index, length, before));
            before
        })
        .collect()
}

fn is_similar(a: i64, b: i64) -> bool {
    (a - b).abs() * 4 <= a.min(b)
}

/// Splits ascending times at gaps.
pub(super) fn runs(times: &[i64], usual: i64) -> Vec<SampleRun> {
    let mut runs: Vec<SampleRun> = Vec::new();
    let mut before = usual;
    for (at, interval) in times.iter().copied().zip(intervals(times, usual)) {
        match runs.last_mut() {
            Some(run) if !is_gap(at - run.last, before) => {
                (run.last, run.end) = (at, at + interval);
            }
            _ => runs.push(SampleRun {
                start: at,
                last: at,
                end: at + interval,
            }),
        }
        before = interval;
    }
    runs
}

/// Seconds that values represent.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SampleSeconds {
    /// All represent the same time.
    Same(f64),
    /// One number per value, because the scrape interval changed.
    Each(Vec<f64>),
}

impl SampleSeconds {
    /// Determines the seconds of ascending times in milliseconds. A curve without an interval has
    /// one sample per slot of `slot` milliseconds.
    pub(super) fn new(times: &[i64], slot: i64) -> Self {
        let usual = usual(times).unwrap_or(slot);
        let intervals = intervals(times, usual);
        let seconds = |interval: &i64| *interval as f64 / 1000.0;
        if intervals.iter().all(|interval| *interval == usual) {
            return Self::Same(seconds(&usual));
        }
        Self::Each(intervals.iter().map(seconds).collect())
    }

    /// Splits off the seconds of the values from `index` on.
    pub(super) fn split_off(&mut self, index: usize) -> Self {
        match self {
            Self::Same(seconds) => Self::Same(*seconds),
            Self::Each(seconds) => Self::Each(seconds.split_off(index)),
        }
    }

    pub(super) fn at(&self, index: usize) -> f64 {
        match self {
            Self::Same(seconds) => *seconds,
            Self::Each(seconds) => seconds[index],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(times: &[i64]) -> Vec<i64> {
        times.iter().map(|time| time * 1000).collect()
    }

    #[test]
    fn intervals_follow_a_change_of_the_scrape_interval() {
        // Five minutes at 60 s, then one minute at 5 s.
        let times: Vec<i64> = (0..5)
            .map(|minute| minute * 60)
            .chain((0..12).map(|step| 300 + step * 5))
            .collect();
        let times = seconds(&times);
        assert_eq!(usual(&times), Some(5000));
        let intervals = intervals(&times, 5000);
        assert_eq!(intervals[..5], [60_000; 5]);
        assert_eq!(intervals[5..], [5000; 12]);
        // 5 · 60 s + 12 · 5 s, without a gap.
        assert_eq!(
            runs(&times, 5000),
            [SampleRun {
                start: 0,
                last: 355_000,
                end: 360_000
            }]
        );
    }

    #[test]
    fn interval_before_an_outage_is_the_one_before_it() {
        // Five minutes at 60 s, an outage of ten minutes, and five minutes at 5 s.
        let slow = (0..5).map(|minute| minute * 60);
        let times: Vec<i64> = slow.chain((0..60).map(|step| 900 + step * 5)).collect();
        let times = seconds(&times);
        let runs = runs(&times, usual(&times).unwrap());
        let bounds: Vec<_> = runs.iter().map(|run| (run.start, run.end)).collect();
        assert_eq!(bounds, [(0, 300_000), (900_000, 1_200_000)]);
        // One lost scrape at 60 s, next to more samples at 5 s, is not an outage.
        let lossy = [0, 60, 120, 240, 300, 360].into_iter();
        let times: Vec<i64> = lossy.chain((0..60).map(|step| 420 + step * 5)).collect();
        assert_eq!(super::runs(&seconds(&times), 5000).len(), 1);
    }

    #[test]
    fn single_long_gap_is_an_outage() {
        let times = seconds(&[0, 30, 60, 90, 1290, 1320, 1350]);
        let runs = runs(&times, usual(&times).unwrap());
        let bounds: Vec<_> = runs.iter().map(|run| (run.start, run.end)).collect();
        assert_eq!(bounds, [(0, 120_000), (1_290_000, 1_380_000)]);
        // Two samples 20 minutes apart do not show an interval of 20 minutes.
        assert_eq!(usual(&seconds(&[0, 1200])), Some(LONGEST_SLOT));
        assert_eq!(usual(&seconds(&[0, 900, 1800])), Some(900_000));
        assert_eq!(usual(&seconds(&[7])), None);
        // A late or lost scrape is not a gap.
        assert_eq!(
            super::runs(&seconds(&[0, 30, 60, 130, 160]), 30_000).len(),
            1
        );
    }
}
