//! A window of time, divided into slots of one scrape interval.

use std::collections::BTreeMap;

use crate::model::values::series::{Point, Series};

/// A half-open window `[start, end)` in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    pub start: i64,
    pub end: i64,
}

/// Assumed scrape interval in milliseconds, if there are too few samples to determine it.
const USUAL_SLOT: i64 = 60_000;

/// Maximum length of a slot in milliseconds. Series with a longer scrape interval have gaps.
const LONGEST_SLOT: i64 = 300_000;

/// Slots of a window. Their length is the most common time between two scrapes.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    span: TimeSpan,
    /// Length of a slot in milliseconds.
    pub(super) length: i64,
    pub(super) count: usize,
}

impl Slots {
    pub(super) fn new<'a>(span: TimeSpan, curves: impl Iterator<Item = &'a [Point]>) -> Self {
        let length = interval(curves)
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

    /// Marks the slots in which a series has samples.
    pub(super) fn mark(self, series: &Series, marked: &mut [bool]) {
        self.mark_every(self.length, series, marked);
    }

    /// Marks the slots with samples of a device in a claim. Exporters have their own scrape
    /// interval, so the start and end of the window are marked too if a sample is at most one
    /// interval away.
    pub(super) fn mark_claimed(self, series: &Series, marked: &mut [bool]) {
        let step = interval([&series.points[..]].into_iter())
            .unwrap_or(self.length)
            .max(self.length);
        self.mark_every(step, series, marked);
        let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else {
            return;
        };
        if first.at - self.span.start < step {
            self.between(self.span.start, first.at)
                .for_each(|slot| marked[slot] = true);
        }
        if self.span.end - last.at <= step {
            self.between(last.at, self.span.end)
                .for_each(|slot| marked[slot] = true);
        }
    }

    /// Marks the slots of samples with an interval of `step`. Intervals of up to two and a half
    /// steps, as after a late or lost scrape, are not gaps.
    fn mark_every(self, step: i64, series: &Series, marked: &mut [bool]) {
        let mut before = None;
        for point in &series.points {
            let from = before
                .filter(|before| point.at - before <= step * 5 / 2)
                .unwrap_or(point.at);
            self.times(from, point.at)
                .skip(1)
                .chain([point.at])
                .filter_map(|time| self.slot_at(time))
                .for_each(|slot| marked[slot] = true);
            before = Some(point.at);
        }
    }

    /// Returns the slots between two times.
    fn between(self, from: i64, to: i64) -> impl Iterator<Item = usize> {
        self.times(from, to).filter_map(move |at| self.slot_at(at))
    }

    /// Returns the times from `from` to before `to`, one slot apart.
    fn times(self, from: i64, to: i64) -> impl Iterator<Item = i64> {
        (from..to).step_by(usize::try_from(self.length).unwrap_or(usize::MAX))
    }
}

/// Returns the most common time between two samples in milliseconds.
pub fn interval<'a>(curves: impl Iterator<Item = &'a [Point]>) -> Option<i64> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    // Most intervals equal the previous one, so count repetitions before updating the map.
    let (mut last, mut times) = (0, 0);
    for pair in curves.flat_map(|points| points.windows(2)) {
        // Scrape times vary by some milliseconds, so round to seconds.
        let length = (pair[1].at - pair[0].at + 500) / 1000 * 1000;
        if length != last {
            *counts.entry(last).or_default() += times;
            (last, times) = (length, 0);
        }
        times += 1;
    }
    *counts.entry(last).or_default() += times;
    counts
        .into_iter()
        .filter(|(length, count)| *length > 0 && *count > 0)
        // Of equally common intervals, the shorter one wins.
        .max_by_key(|(length, count)| (*count, -length))
        .map(|(length, _)| length)
}
