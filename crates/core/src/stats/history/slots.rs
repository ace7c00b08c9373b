//! A window of time that is divided into slots, each one scrape interval long.

use std::collections::BTreeMap;

use crate::model::values::series::{Point, Series};

/// A half-open window `[start, end)`, in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    pub start: i64,
    pub end: i64,
}

/// The assumed number of milliseconds between two scrapes, if there are too few samples to compute
/// it.
const USUAL_SLOT: i64 = 60_000;

/// The maximum length of a slot. Series with a longer scrape interval have gaps.
const LONGEST_SLOT: i64 = 300_000;

/// The slots of a window. Each slot is as long as the most common time between two scrapes.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    span: TimeSpan,
    /// The length of a slot in milliseconds.
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

    /// Finds the slot of a time; `None` outside the window.
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

    /// Marks the slots in which a device of a claim has samples. Exporters have a scrape interval
    /// of their own. The start and the end of the window are marked too if a sample is at most one
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

    /// Marks the slots of samples that are `step` apart. If a single scrape is late or lost, or an
    /// interval is up to two and a half steps long, this is not a gap.
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

    /// Iterates over the slots between two times.
    fn between(self, from: i64, to: i64) -> impl Iterator<Item = usize> {
        self.times(from, to).filter_map(move |at| self.slot_at(at))
    }

    /// Iterates over times between two times, which are one slot apart.
    fn times(self, from: i64, to: i64) -> impl Iterator<Item = i64> {
        (from..to).step_by(usize::try_from(self.length).unwrap_or(usize::MAX))
    }
}

/// Finds the most common time between two samples, in milliseconds.
pub fn interval<'a>(curves: impl Iterator<Item = &'a [Point]>) -> Option<i64> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    // Most intervals are equal to the previous one, so count how often an interval repeats before
    // updating the map.
    let (mut last, mut times) = (0, 0);
    for pair in curves.flat_map(|points| points.windows(2)) {
        // The time of a scrape varies by some milliseconds.
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
        // If two intervals are equally common, the shorter one wins.
        .max_by_key(|(length, count)| (*count, -length))
        .map(|(length, _)| length)
}
