//! Determines from samples when an object existed. While nothing was scraped, an object existed if
//! it was seen before and after. Otherwise its existence is unknown.

use std::collections::BTreeMap;

use super::cadence::{SampleRun, is_gap, runs, usual};
use super::slots::Slots;
use crate::model::values::series::Series;

/// Slots of an object's life.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    /// Slots with samples, or between two consecutive samples.
    pub(crate) seen: Vec<bool>,
    /// Slots without samples between two samples of the same object.
    pub(crate) bridged: Vec<bool>,
    /// Slots in which the object may have existed, because nothing was scraped before its first or
    /// after its last sample.
    pub(crate) unseen: Vec<bool>,
}

/// Times at which one target was scraped.
struct ScrapedTarget {
    /// Ascending.
    times: Vec<i64>,
    /// Usual interval in milliseconds.
    interval: i64,
}

impl ScrapedTarget {
    fn first(&self) -> i64 {
        self.times.first().copied().unwrap_or(i64::MAX)
    }

    fn last(&self) -> i64 {
        self.times.last().copied().unwrap_or(i64::MIN)
    }
}

/// Times at which the targets of some series were scraped.
pub(super) struct Scrapes {
    targets: Vec<ScrapedTarget>,
    numbers: BTreeMap<Vec<String>, usize>,
}

/// Labels that identify the target and the scraper of a series. Labels such as `pod` belong to the
/// object in the series of kube-state-metrics.
const TARGET: [&str; 6] = [
    "job",
    "instance",
    "prometheus",
    "prometheus_replica",
    "replica",
    "cluster",
];

fn target_labels(series: &Series) -> Vec<String> {
    TARGET
        .iter()
        .map(|label| series.label(label).unwrap_or_default().to_owned())
        .collect()
}

impl Scrapes {
    /// Collects the times of all samples. `fallback` is the interval of targets with one sample.
    pub(super) fn new<'s>(series: impl Iterator<Item = &'s Series>, fallback: i64) -> Self {
        let (mut targets, mut numbers) = (Vec::<ScrapedTarget>::new(), BTreeMap::new());
        for series in series {
            let number = *numbers.entry(target_labels(series)).or_insert_with(|| {
                targets.push(ScrapedTarget {
                    times: Vec::new(),
                    interval: fallback,
                });
                targets.len() - 1
            });
            add_times(&mut targets[number].times, series);
        }
        for target in &mut targets {
            target.interval = usual(&target.times).unwrap_or(fallback);
        }
        Self { targets, numbers }
    }

    fn number(&self, series: &Series) -> Option<usize> {
        self.numbers.get(&target_labels(series)).copied()
    }

    /// Returns the next scrape after a time, also by a target that replaced this one, as after a
    /// restart of kube-state-metrics.
    fn next(&self, number: usize, at: i64) -> Option<i64> {
        let target = &self.targets[number];
        let later = target.times.partition_point(|time| *time <= at);
        let successors = || {
            let firsts = self.targets.iter().map(ScrapedTarget::first);
            firsts
                .filter(|first| *first > target.last() && *first != i64::MAX)
                .min()
        };
        target.times.get(later).copied().or_else(successors)
    }

    /// Returns the last scrape before a time, also by a target that this one replaced.
    fn previous(&self, number: usize, at: i64) -> Option<i64> {
        let target = &self.targets[number];
        let earlier = target.times.partition_point(|time| *time < at);
        let predecessors = || {
            let lasts = self.targets.iter().map(ScrapedTarget::last);
            lasts
                .filter(|last| *last < target.first() && *last != i64::MIN)
                .max()
        };
        earlier
            .checked_sub(1)
            .map(|index| target.times[index])
            .or_else(predecessors)
    }

    /// Returns the slots during which at least one target was scraped.
    pub(super) fn observed(&self, slots: Slots) -> Vec<bool> {
        let mut observed = vec![false; slots.count];
        for (number, target) in self.targets.iter().enumerate() {
            let mut sightings = Sightings::default();
            sightings.add_times(&target.times, number, target.interval);
            let seen = sightings.presence(slots, self, false).seen;
            observed
                .iter_mut()
                .zip(seen)
                .for_each(|(slot, seen)| *slot |= seen);
        }
        observed
    }

    /// Returns whether a target was not scraped at the start and at the end of the window.
    pub(super) fn edge_gaps(&self, slots: Slots) -> (bool, bool) {
        let silent = |edge: fn(&ScrapedTarget, Slots) -> i64| {
            let misses = |target: &ScrapedTarget| is_gap(edge(target, slots), target.interval);
            self.targets.is_empty() || self.targets.iter().any(misses)
        };
        (
            silent(|target, slots| target.first().saturating_sub(slots.span.start)),
            silent(|target, slots| slots.span.end.saturating_sub(target.last())),
        )
    }
}

/// Adds the times of a series to ascending times. Nearly all series of a target have the same
/// times, so compare before sorting.
fn add_times(times: &mut Vec<i64>, series: &Series) {
    let mut next = 0;
    let mut missing = Vec::new();
    for point in &series.points {
        next += times[next..]
            .iter()
            .take_while(|time| **time < point.at)
            .count();
        if times.get(next) != Some(&point.at) {
            missing.push(point.at);
        }
    }
    if !missing.is_empty() {
        times.extend(missing);
        times.sort_unstable();
        times.dedup();
    }
}

/// Samples of one object by all targets.
#[derive(Default)]
pub(super) struct Sightings {
    /// Runs, with the number of the target.
    runs: Vec<(SampleRun, usize)>,
}

impl Sightings {
    /// Collects the samples of an object.
    pub(super) fn new(series: &[&Series], scrapes: &Scrapes) -> Self {
        let mut sightings = Self::default();
        for series in series {
            let Some(target) = scrapes.number(series) else {
                continue;
            };
            let mut times: Vec<i64> = series.points.iter().map(|point| point.at).collect();
            times.sort_unstable();
            times.dedup();
            // Few samples do not show the interval of the series.
            let own = usual(&times).filter(|_| times.len() > 3);
            let interval = own.unwrap_or(scrapes.targets[target].interval);
            sightings.add_times(&times, target, interval);
        }
        sightings
    }

    fn add_times(&mut self, times: &[i64], target: usize, interval: i64) {
        let runs = runs(times, interval);
        self.runs.extend(runs.into_iter().map(|run| (run, target)));
    }

    /// Returns the slots of the object's life. `is_unique` means that all samples belong to one
    /// object, because they have the same UID. Samples outside the window count as evidence.
    pub(super) fn presence(mut self, slots: Slots, scrapes: &Scrapes, is_unique: bool) -> Presence {
        let mut presence = Presence {
            seen: vec![false; slots.count],
            bridged: vec![false; slots.count],
            unseen: vec![false; slots.count],
        };
        self.runs.sort_by_key(|(run, _)| run.start);
        let newest = self.runs.iter().max_by_key(|(run, _)| run.last).copied();
        let (Some(first), Some(newest)) = (self.runs.first().copied(), newest) else {
            return presence;
        };
        let mut before: Option<(SampleRun, usize)> = None;
        for (run, target) in self.runs {
            presence.see(slots, run.start, run.end);
            if let Some((last, last_target)) = before
                && last.end < run.start
            {
                let is_silent = || {
                    let next = scrapes.next(last_target, last.last);
                    next.is_none_or(|next| next >= run.start)
                };
                let gap = slots.between(last.end, run.start);
                if is_unique {
                    presence.bridged[gap].fill(true);
                } else if is_silent() {
                    presence.unseen[gap].fill(true);
                }
            }
            if before.is_none_or(|(last, _)| last.end < run.end) {
                before = Some((run, target));
            }
        }
        presence.add_start(slots, scrapes, first);
        presence.add_end(slots, scrapes, newest);
        for slot in 0..slots.count {
            presence.bridged[slot] &= !presence.seen[slot];
            presence.unseen[slot] &= !presence.seen[slot] && !presence.bridged[slot];
        }
        presence
    }
}

impl Presence {
    /// Returns true if the object may have existed in a slot.
    fn is_possible(&self, slot: usize) -> bool {
        self.seen[slot] || self.bridged[slot] || self.unseen[slot]
    }

    /// Returns true if both objects may have existed in the same slot.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let slots = self.seen.len().min(other.seen.len());
        (0..slots).any(|slot| self.is_possible(slot) && other.is_possible(slot))
    }

    /// Removes unseen slots without any of the `needed` objects.
    pub(crate) fn limit_unseen(&mut self, needed: &[&Self]) {
        for (slot, unseen) in self.unseen.iter_mut().enumerate() {
            *unseen &= needed.iter().any(|other| other.is_possible(slot));
        }
    }

    /// Marks at least the slot of the first sample, which may be longer than an interval.
    fn see(&mut self, slots: Slots, from: i64, to: i64) {
        self.seen[slots.between(from, to)].fill(true);
        if let Some(slot) = slots.slot_at(from) {
            self.seen[slot] = true;
        }
    }

    /// Adds the time before the first sample, if nothing was scraped then.
    fn add_start(&mut self, slots: Slots, scrapes: &Scrapes, (run, target): (SampleRun, usize)) {
        let interval = scrapes.targets[target].interval;
        match scrapes.previous(target, run.start) {
            Some(scrape) if is_gap(run.start - scrape, interval) => {
                self.unseen[slots.between(scrape + interval, run.start)].fill(true);
            }
            // The last scrape was before the window, and is unknown because the window has samples:
            // otherwise it would have been looked up.
            None if run.start < slots.span.end
                && !is_gap(run.start - slots.span.start, interval) =>
            {
                self.seen[slots.between(slots.span.start, run.start)].fill(true);
            }
            // The object is new, or monitoring began here, which is not an outage.
            _ => {}
        }
    }

    /// Adds the time after the last sample, if nothing was scraped then.
    fn add_end(&mut self, slots: Slots, scrapes: &Scrapes, (run, target): (SampleRun, usize)) {
        let interval = scrapes.targets[target].interval;
        let end = slots.span.end;
        match scrapes.next(target, run.last) {
            Some(scrape) if is_gap(scrape - run.last, interval) => {
                self.unseen[slots.between(run.end, scrape)].fill(true);
            }
            Some(_) => {}
            None if !is_gap(end - run.last, interval) => {
                self.seen[slots.between(run.end, end)].fill(true);
            }
            None => self.unseen[slots.between(run.end, end)].fill(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::values::series::{Labels, Point};
    use crate::stats::history::slots::TimeSpan;

    #[test]
    fn time_before_the_first_scrape_of_all_does_not_count() {
        // Scrapes every 30 s from 60 s on, and nothing before.
        let points = (2..6).map(|step| Point {
            at: step * 30_000,
            value: 1.0,
        });
        let series = Series {
            labels: Labels::default(),
            points: points.collect(),
        };
        let seen = |start: i64, end: i64| {
            let span = TimeSpan { start, end };
            let slots = Slots::new(span, [&series.points[..]].into_iter());
            let scrapes = Scrapes::new([&series].into_iter(), 30_000);
            let presence = Sightings::new(&[&series], &scrapes).presence(slots, &scrapes, true);
            presence.seen.iter().filter(|slot| **slot).count()
        };
        // A window that ends with the first scrape, although it is shorter than two intervals.
        assert_eq!(seen(10_000, 60_000), 0);
        // The object existed during the whole window.
        assert_eq!(seen(60_000, 180_000), 4);
        assert_eq!(seen(70_000, 130_000), 2);
    }
}
