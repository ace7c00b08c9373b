//! A window of time, divided into slots of one scrape interval.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::model::values::series::Point;

/// A half-open window `[start, end)` in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    pub start: i64,
    pub end: i64,
}

impl TimeSpan {
    pub fn hours(self) -> f64 {
        (self.end - self.start) as f64 / 3_600_000.0
    }
}

/// Assumed scrape interval in milliseconds, if there are too few samples to determine it.
const USUAL_SLOT: i64 = 60_000;

/// Maximum length of a slot in milliseconds.
pub(super) const LONGEST_SLOT: i64 = 300_000;

/// Slots of a window. Their length is a scrape interval: the shortest one that covers a notable
/// part of the window, because longer ones then end on slots too.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub(super) span: TimeSpan,
    /// Length of a slot in milliseconds.
    pub(super) length: i64,
    pub(super) count: usize,
}

impl Slots {
    pub(super) fn new<'a>(span: TimeSpan, curves: impl Iterator<Item = &'a [Point]>) -> Self {
        let length = finest(curves)
            .unwrap_or(USUAL_SLOT)
            .clamp(1000, LONGEST_SLOT);
        let count = (span.end - span.start + length - 1).div_euclid(length);
        Self {
            span,
            length,
            count: usize::try_from(count).unwrap_or(0),
        }
    }

    /// Returns the slot of a time, or `None` outside the window.
    pub(super) fn slot_at(self, at: i64) -> Option<usize> {
        // The last slot can reach beyond the window.
        if at >= self.span.end {
            return None;
        }
        usize::try_from((at - self.span.start).div_euclid(self.length))
            .ok()
            .filter(|slot| *slot < self.count)
    }

    /// Returns the start of a slot.
    pub(super) fn begin(self, slot: usize) -> i64 {
        self.span.start
            + i64::try_from(slot)
                .unwrap_or(i64::MAX)
                .saturating_mul(self.length)
    }

    /// Returns the slots of a half-open range. Both ends are rounded down, so that adjacent ranges
    /// neither overlap nor leave a gap.
    pub(super) fn between(self, from: i64, to: i64) -> Range<usize> {
        let slot = |at: i64| {
            if at >= self.span.end {
                return self.count;
            }
            let slot = (at - self.span.start).div_euclid(self.length).max(0);
            usize::try_from(slot).unwrap_or(0).min(self.count)
        };
        let end = slot(to);
        slot(from).min(end)..end
    }
}

/// Counts the lengths of gaps, rounded to seconds because scrape times vary by some milliseconds.
fn lengths(gaps: impl Iterator<Item = i64>) -> BTreeMap<i64, usize> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    // Most gaps equal the previous one, so count repetitions before updating the map.
    let (mut last, mut times) = (0, 0);
    for gap in gaps {
        let length = (gap + 500) / 1000 * 1000;
        if length != last {
            *counts.entry(last).or_default() += times;
            (last, times) = (length, 0);
        }
        times += 1;
    }
    *counts.entry(last).or_default() += times;
    counts.retain(|length, count| *length > 0 && *count > 0);
    counts
}

/// Returns the most common length of gaps, rounded to seconds. Of equally common ones, the shorter
/// one wins.
pub(super) fn most_common(gaps: impl Iterator<Item = i64>) -> Option<i64> {
    let common = lengths(gaps)
        .into_iter()
        .max_by_key(|(length, count)| (*count, -length));
    common.map(|(length, _)| length)
}

fn gaps<'a>(curves: impl Iterator<Item = &'a [Point]>) -> impl Iterator<Item = i64> {
    curves
        .flat_map(|points| points.windows(2))
        .map(|pair| pair[1].at - pair[0].at)
}

/// Returns the most common time between two samples in milliseconds.
pub fn interval<'a>(curves: impl Iterator<Item = &'a [Point]>) -> Option<i64> {
    most_common(gaps(curves))
}

/// Returns the shortest interval that covers at least a twentieth of the time, if it is clearly
/// shorter than the most common one, and otherwise the most common one.
fn finest<'a>(curves: impl Iterator<Item = &'a [Point]>) -> Option<i64> {
    let lengths = lengths(gaps(curves));
    let time = |(length, count): (&i64, &usize)| *length as f64 * *count as f64;
    let all: f64 = lengths.iter().map(time).sum();
    let common = lengths
        .iter()
        .max_by_key(|(length, count)| (**count, -**length));
    let common = *common?.0;
    let shortest = lengths
        .iter()
        .find(|(length, count)| time((length, count)) * 20.0 >= all);
    let shortest = shortest.map_or(common, |(length, _)| *length);
    Some(if shortest * 5 <= common * 4 {
        shortest
    } else {
        common
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_after_the_window_are_not_in_its_last_slot() {
        // Four slots of 30 s in a window of 101 s, so the last one has 11 s.
        let span = TimeSpan {
            start: 0,
            end: 101_000,
        };
        let slots = Slots {
            span,
            length: 30_000,
            count: 4,
        };
        assert_eq!(slots.slot_at(100_999), Some(3));
        assert_eq!(slots.slot_at(101_000), None);
        assert_eq!(slots.between(101_000, 131_000), 4..4);
        assert_eq!(slots.between(95_000, 131_000), 3..4);
        assert_eq!(slots.between(-5000, 60_000), 0..2);
    }
}
