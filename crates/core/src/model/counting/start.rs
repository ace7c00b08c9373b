//! Forecasts the start of a waiting job from past waiting times and the deadlines of running jobs.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::capacity::{Amounts, pods_held};
use super::victims::{NodeLoad, add};

/// Remaining waiting time of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StartForecast {
    /// Seconds after which 10, 50 and 90 % of similar jobs have started, or `None` with too few
    /// samples.
    pub quantiles: Option<(f64, f64, f64)>,
    /// Number of similar jobs that waited at least as long as this job has.
    pub similar: u64,
    /// Days of history that were searched for similar jobs.
    pub days: i64,
    /// Seconds until the deadlines of running jobs free enough capacity. `None` if they free too
    /// little, or if other pods also wait.
    pub latest: Option<f64>,
}

impl StartForecast {
    /// Adds the time at which deadlines free enough capacity, and limits the quantiles to it.
    pub fn bounded(past: Option<Self>, free_by: Option<Timestamp>, now: Timestamp) -> Option<Self> {
        let Some(latest) = free_by.map(|time| time.duration_since(now).as_secs_f64().max(0.0))
        else {
            return past;
        };
        let past = past.unwrap_or_default();
        let quantiles = past
            .quantiles
            .map(|(low, half, high)| (low.min(latest), half.min(latest), high.min(latest)));
        Some(Self {
            quantiles,
            latest: Some(latest),
            ..past
        })
    }
}

/// Returns the first deadline after which `pods` pods fit on these nodes. `ends` contains the
/// deadline of each holder that has one.
pub fn free_by(
    requests: &Amounts,
    pods: u64,
    nodes: &BTreeMap<String, NodeLoad>,
    ends: &BTreeMap<String, Timestamp>,
) -> Option<Timestamp> {
    // Capacity becomes free only when holders end, so check only their deadlines.
    let end_times: BTreeSet<Timestamp> = ends.values().copied().collect();
    end_times.into_iter().find(|time| {
        let has_ended = |holder: &String| ends.get(holder).is_some_and(|end| end <= time);
        let left = |(free, placed): &NodeLoad| {
            let mut free = free.clone();
            placed
                .iter()
                .filter(|pod| has_ended(&pod.holder))
                .for_each(|pod| add(&mut free, &pod.amounts, 1));
            free
        };
        let free = nodes
            .iter()
            .map(|(node, load)| (node.clone(), left(load)))
            .collect();
        pods_held(requests, &free) >= pods
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::counting::candidates::PlacedPod;

    fn gpus(count: i128) -> Amounts {
        Amounts::from([("nvidia.com/gpu".to_owned(), count * 1000)])
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    /// Node a has 2 free GPUs: x holds 4 until minute 10, and y holds 2 without a deadline. Node b
    /// has none: x holds 4, and z holds 4 until minute 30.
    #[test]
    fn capacity_is_free_after_the_deadlines_of_holders() {
        let pod = |holder: &str, count| PlacedPod {
            holder: holder.to_owned(),
            amounts: gpus(count),
            ..PlacedPod::default()
        };
        let nodes = BTreeMap::from([
            (
                "a".to_owned(),
                (gpus(2), vec![pod("n/x", 4), pod("n/y", 2)]),
            ),
            (
                "b".to_owned(),
                (gpus(0), vec![pod("n/x", 4), pod("n/z", 4)]),
            ),
        ]);
        let ends = BTreeMap::from([("n/x".to_owned(), at(10)), ("n/z".to_owned(), at(30))]);
        let free_at = |gpus_per_pod, pods| free_by(&gpus(gpus_per_pod), pods, &nodes, &ends);
        // At minute 10, node a has six free GPUs and node b has four. At minute 30, they have six
        // and eight.
        assert_eq!(
            [
                free_at(6, 1),
                free_at(3, 3),
                free_at(8, 1),
                free_at(6, 2),
                free_at(4, 4)
            ],
            [Some(at(10)), Some(at(10)), Some(at(30)), Some(at(30)), None]
        );
    }

    #[test]
    fn deadlines_cap_the_forecast() {
        let past = StartForecast {
            quantiles: Some((60.0, 900.0, 7200.0)),
            similar: 12,
            days: 7,
            latest: None,
        };
        let bounded = StartForecast::bounded(Some(past), Some(at(60)), at(30)).unwrap();
        assert_eq!(
            (bounded.quantiles, bounded.latest),
            (Some((60.0, 900.0, 1800.0)), Some(1800.0))
        );
        assert_eq!(StartForecast::bounded(Some(past), None, at(30)), Some(past));
        let alone = StartForecast::bounded(None, Some(at(10)), at(30)).unwrap();
        assert_eq!((alone.quantiles, alone.latest), (None, Some(0.0)));
        assert_eq!(StartForecast::bounded(None, None, at(0)), None);
    }
}
