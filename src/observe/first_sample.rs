//! Finds the first sample of a store, so that a long range over a young store does not query each
//! of its empty hours.
//!
//! Uses the label API, which reads only the index. Stores answer it for whole blocks or days, so
//! the result can be too early but never too late. If the store does not answer, the first sample
//! is unknown.

use futures::future::{join, join_all};
use serde_json::Value;

use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::exported_metrics;
use gpuctl_prometheus::Prometheus;

const HOUR: i64 = 3600;

/// Ranges of up to this many hours are cheaper to read completely than to search.
const FEW_HOURS: i64 = 6;

/// Number of concurrent requests.
const AT_ONCE: i64 = 8;

/// Prometheus' default lookback in seconds: an instant query returns samples up to this age.
const LOOK_BACK: i64 = 300;

/// Returns a time in the range before which the store has no samples. Returns `None` if the range
/// starts with samples, or if the store does not answer.
pub(super) async fn first_sample(
    prometheus: &Prometheus<'_>,
    since: UnixSeconds,
    until: UnixSeconds,
) -> Option<UnixSeconds> {
    let hours = (until - since) / HOUR + 1;
    if hours <= FEW_HOURS {
        return None;
    }
    let has_samples = async |hour: i64| has_samples(prometheus, since, since + hour * HOUR).await;
    // Most stores have samples in the first hour, and need no search. A store without any sample in
    // the range cannot be searched either.
    let (in_first, in_all) = join(has_samples(1), has_samples(hours)).await;
    if in_first? || !in_all? {
        return None;
    }
    let (mut empty, mut full) = (1, hours);
    while full - empty > 1 {
        let probed = between(empty, full);
        let answers = join_all(probed.iter().map(|hour| has_samples(*hour))).await;
        let answers: Vec<bool> = answers.into_iter().collect::<Option<_>>()?;
        (empty, full) = narrowed((empty, full), probed.into_iter().zip(answers));
    }
    Some(since + empty * HOUR)
}

/// Returns true if the store has a sample in the range. Returns `None` if it does not answer or its
/// answer may be incomplete.
async fn has_samples(
    prometheus: &Prometheus<'_>,
    since: UnixSeconds,
    until: UnixSeconds,
) -> Option<bool> {
    let path = format!(
        "api/v1/label/__name__/values?start={}&end={until}&{}",
        since - LOOK_BACK,
        exported_metrics::hourly_metrics()
    );
    let reply = prometheus.relay(&path).await.ok()?;
    let document: Value = serde_json::from_slice(&reply.body).ok()?;
    // Prometheus warns if a remote-read store fails, and Thanos warns if one of its stores is down.
    let warned = document["warnings"]
        .as_array()
        .is_some_and(|warnings| !warnings.is_empty());
    let is_partial = warned || document["isPartial"] == true;
    let names = document["data"]
        .as_array()
        .filter(|_| reply.code == 200 && !is_partial)?;
    Some(!names.is_empty())
}

/// Picks up to [`AT_ONCE`] hours that evenly divide the hours between `empty` and `full`.
fn between(empty: i64, full: i64) -> Vec<i64> {
    let mut hours: Vec<i64> = (1..=AT_ONCE)
        .map(|part| empty + (full - empty) * part / (AT_ONCE + 1))
        .filter(|hour| (empty + 1..full).contains(hour))
        .collect();
    hours.dedup();
    if hours.is_empty() {
        hours.push(empty + 1);
    }
    hours
}

/// Narrows the range between the last empty hour and the first full hour. The answers are in order
/// of time.
fn narrowed(
    (mut empty, mut full): (i64, i64),
    answers: impl Iterator<Item = (i64, bool)>,
) -> (i64, i64) {
    for (hour, has_samples) in answers {
        if has_samples {
            full = hour;
            break;
        }
        empty = hour;
    }
    (empty, full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hour_with_samples_is_found_in_few_rounds() {
        let hours = 2 * 366 * 24;
        for first in [2, 3, 9, 500, 719, hours - 1, hours] {
            let (mut empty, mut full, mut rounds) = (1, hours, 0);
            while full - empty > 1 {
                let probed = between(empty, full);
                assert!(probed.len() <= 8 && !probed.is_empty(), "{probed:?}");
                let answers = probed.into_iter().map(|hour| (hour, hour >= first));
                (empty, full) = narrowed((empty, full), answers);
                rounds += 1;
            }
            assert_eq!((empty, full), (first - 1, first));
            // Nine ranges per round: 9⁵ is more than the number of hours.
            assert!(rounds <= 6, "{rounds} rounds for {first}");
        }
    }

    #[test]
    fn a_gap_after_the_first_sample_does_not_move_it() {
        // Every request starts at the beginning of the range, so a later gap has no effect.
        let answers = [(2, false), (4, true), (6, true)];
        assert_eq!(narrowed((1, 9), answers.into_iter()), (2, 4));
        // A contradiction between answers makes the result earlier, never later.
        let answers = [(2, true), (4, false), (6, true)];
        assert_eq!(narrowed((1, 9), answers.into_iter()), (1, 2));
    }
}
