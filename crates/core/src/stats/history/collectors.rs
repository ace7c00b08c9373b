//! Removes duplicate samples of devices that several collectors scraped.

use std::collections::BTreeMap;

use super::slots::interval;
use crate::model::Point;

/// Length in milliseconds of the windows for means. Documents contain one value per five minutes.
pub const WINDOW: i64 = 300_000;

/// Removes duplicate values of a device that several collectors scraped. Of two samples by
/// different collectors within half a scrape interval, one is a copy.
pub fn deduplicated(mut numbered: Vec<(u32, Point)>) -> Vec<Point> {
    numbered.sort_by_key(|(source, point)| (point.at, *source));
    let first = numbered.first().map(|(source, _)| *source);
    if numbered.iter().all(|(source, _)| Some(*source) == first) {
        let mut points: Vec<Point> = numbered.into_iter().map(|(_, point)| point).collect();
        points.dedup_by_key(|point| point.at);
        return points;
    }
    let mut sources: BTreeMap<u32, Vec<Point>> = BTreeMap::new();
    numbered
        .iter()
        .for_each(|(source, point)| sources.entry(*source).or_default().push(*point));
    let apart = interval(sources.values().map(Vec::as_slice)).unwrap_or(0) / 2;
    let mut kept: Vec<(u32, Point)> = Vec::new();
    for (source, point) in numbered {
        let copy = kept
            .last()
            .is_some_and(|(last, before)| *last != source && point.at - before.at < apart.max(1));
        if !copy {
            kept.push((source, point));
        }
    }
    kept.into_iter().map(|(_, point)| point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_from_other_collectors_are_removed() {
        let point = |at: i64| Point { at, value: 1.0 };
        let copies = |shift: i64| {
            (0..4)
                .flat_map(|step| [(0, point(step * 30_000)), (1, point(step * 30_000 + shift))])
                .collect::<Vec<_>>()
        };
        for shift in [0, 1, 10_000, 20_000, 29_999] {
            let kept = deduplicated(copies(shift));
            assert!((4..=5).contains(&kept.len()), "{shift}: {kept:?}");
        }
        // Samples of the other collector fill the gap.
        let mut gap = copies(10_000);
        gap.retain(|(source, point)| *source == 1 || point.at < 60_000);
        assert_eq!(deduplicated(gap).len(), 4);
    }
}
