//! Forecasts the start of a waiting job from quantiles of the waiting times of similar jobs. Uses
//! only past starts, not the order of the queue.
//!
//! The quantiles are order statistics at position p·(n+1) (Hyndman and Fan, 1996, definition 6).
//! Another wait of the same kind is shorter than such a quantile with probability p.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::facts::reading::PodKey;
use crate::model::values::omissions;
use crate::model::values::omissions::Omission;
use crate::model::values::series::Series;
use crate::model::values::units::MOST_PER_NODE;

use crate::model::values::whole;
use crate::stats::exporters::kube_state::{label, owner, pod};

/// Minimum number of starts for a forecast.
pub(crate) const FEWEST: usize = 10;
/// Pods of one owner that were created within this many seconds form one start.
const TOGETHER: f64 = 60.0;
/// Similar jobs have at most this many times as many GPUs, and at least the inverse fraction.
const SIZE: u64 = 2;

/// A past start: pods of one owner that were created together.
#[derive(Clone, Debug, PartialEq)]
pub struct PastStart {
    /// Nodes of the pods.
    pub nodes: BTreeSet<String>,
    /// Number of devices of all pods.
    pub gpus: u64,
    /// Seconds from the creation until the last pod was scheduled.
    pub waited: f64,
}

/// Remaining waiting time of a job in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    pub p10: f64,
    pub p50: f64,
    pub p90: f64,
    /// Number of similar starts behind the forecast.
    pub starts: usize,
}

/// Responses to the kube-state-metrics queries about starts.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartSeries<'a> {
    /// Creation times of pods in Unix seconds.
    pub created: &'a [Series],
    /// Times at which pods were scheduled, in Unix seconds.
    pub placed: &'a [Series],
    /// Numbers of devices that pods requested.
    pub requested: &'a [Series],
    /// Nodes of pods, in the label `node`.
    pub places: &'a [Series],
    pub owners: &'a [Series],
}

struct PodStart<'a> {
    created: f64,
    waited: f64,
    gpus: u64,
    node: &'a str,
}

/// Groups pods into starts, without pods that were never scheduled.
pub fn past(answers: StartSeries<'_>) -> Vec<PastStart> {
    let key = |series: &Series| pod(series).map(|(key, _)| key);
    let value = |series: &Series| {
        series
            .points
            .last()
            .map(|point| point.value)
            .filter(|value| value.is_finite() && *value > 0.0)
    };
    let values = |series: &[Series]| -> BTreeMap<PodKey, f64> {
        series
            .iter()
            .filter_map(|sample| Some((key(sample)?, value(sample)?)))
            .collect()
    };
    let (placed, requested) = (values(answers.placed), values(answers.requested));
    let places: BTreeMap<PodKey, &str> = answers
        .places
        .iter()
        .filter_map(|sample| {
            Some((
                key(sample)?,
                label(sample, "node").filter(|node| !node.is_empty())?,
            ))
        })
        .collect();
    let owners: BTreeMap<PodKey, (String, String)> = answers
        .owners
        .iter()
        .filter_map(|sample| Some((key(sample)?, owner(sample)?)))
        .collect();
    // Pods by namespace and owner.
    let mut groups: BTreeMap<(String, String, String), Vec<PodStart<'_>>> = BTreeMap::new();
    for (key, created) in values(answers.created) {
        let (Some(placed), Some(gpus), Some(node)) =
            (placed.get(&key), requested.get(&key), places.get(&key))
        else {
            continue;
        };
        if *gpus > MOST_PER_NODE as f64 {
            omissions::note(Omission::AbsurdRequest, format!("{}/{}", key.0, key.1));
            continue;
        }
        let (kind, name) = owners
            .get(&key)
            .cloned()
            .unwrap_or_else(|| ("Pod".to_owned(), key.1.clone()));
        let pods = groups.entry((key.0, kind, name)).or_default();
        pods.push(PodStart {
            created,
            waited: (placed - created).max(0.0),
            gpus: whole::to_u64(*gpus),
            node,
        });
    }
    groups.into_values().flat_map(starts_of_owner).collect()
}

/// Groups the pods of one owner into starts, sorted by time.
fn starts_of_owner(mut pods: Vec<PodStart<'_>>) -> Vec<PastStart> {
    pods.sort_by(|a, b| a.created.total_cmp(&b.created));
    let mut starts = Vec::new();
    let mut begin = f64::NEG_INFINITY;
    for PodStart {
        created,
        waited,
        gpus,
        node,
    } in pods
    {
        if created - begin > TOGETHER {
            begin = created;
            starts.push(PastStart {
                nodes: BTreeSet::new(),
                gpus: 0,
                waited: 0.0,
            });
        }
        let start = starts.last_mut().expect("the first pod began one");
        start.nodes.insert(node.to_owned());
        start.gpus += gpus;
        start.waited = start.waited.max(waited);
    }
    starts
}

/// Selects the starts that are similar to those of a job with `gpus` devices on these nodes.
pub fn similar<'s>(
    past: &'s [PastStart],
    gpus: u64,
    nodes: &BTreeSet<String>,
) -> Vec<&'s PastStart> {
    let is_near = |start: &&PastStart| start.gpus * SIZE >= gpus && start.gpus <= gpus * SIZE;
    past.iter()
        .filter(is_near)
        .filter(|start| start.nodes.iter().any(|node| nodes.contains(node)))
        .collect()
}

/// Forecasts the remaining wait of a job that has waited `waited` seconds, from similar jobs that
/// waited longer. Returns `None` if there are fewer than [`FEWEST`].
pub fn forecast(similar: &[&PastStart], waited: f64) -> Option<Forecast> {
    let mut left: Vec<f64> = similar
        .iter()
        .map(|start| start.waited - waited)
        .filter(|left| *left > 0.0)
        .collect();
    if left.len() < FEWEST {
        return None;
    }
    left.sort_by(f64::total_cmp);
    Some(Forecast {
        p10: quantile(&left, 0.1),
        p50: quantile(&left, 0.5),
        p90: quantile(&left, 0.9),
        starts: left.len(),
    })
}

/// Returns the value at position p·(n+1) of sorted values, with linear interpolation.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let position = p * (sorted.len() + 1) as f64 - 1.0;
    let low = position.floor().clamp(0.0, (sorted.len() - 1) as f64);
    let index = whole::to_usize(low);
    let (below, above) = (sorted[index], sorted[(index + 1).min(sorted.len() - 1)]);
    below + (above - below) * (position - low).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::values::series::Point;

    fn series(pod: &str, more: &[(&str, &str)], value: f64) -> Series {
        let labels = [&[("namespace", "n"), ("pod", pod)], more].concat();
        let labels = labels
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Series {
            labels,
            points: vec![Point { at: 0, value }],
        }
    }

    #[test]
    fn pods_created_together_are_one_start() {
        let job = [("owner_kind", "Job"), ("owner_name", "j")];
        // Two ranks (the second waits longer), and a retry an hour later.
        let created = [
            series("a", &[], 1000.0),
            series("b", &[], 1010.0),
            series("c", &[], 5000.0),
            series("waits", &[], 6000.0),
        ];
        let placed = [
            series("a", &[], 1100.0),
            series("b", &[], 1310.0),
            series("c", &[], 5002.0),
        ];
        let requested = ["a", "b", "c", "waits"].map(|pod| series(pod, &[], 8.0));
        let places = [("a", "x"), ("b", "y"), ("c", "x")]
            .map(|(pod, node)| series(pod, &[("node", node)], 1.0));
        let owners = ["a", "b", "c", "waits"].map(|pod| series(pod, &job, 1.0));
        let starts = past(StartSeries {
            created: &created,
            placed: &placed,
            requested: &requested,
            places: &places,
            owners: &owners,
        });
        let start = |nodes: &[&str], gpus, waited| PastStart {
            nodes: nodes.iter().map(ToString::to_string).collect(),
            gpus,
            waited,
        };
        assert_eq!(
            starts,
            [start(&["x", "y"], 16, 300.0), start(&["x"], 8, 2.0)]
        );
        let on_y: BTreeSet<String> = ["y".to_owned()].into();
        assert_eq!(similar(&starts, 8, &on_y).len(), 1);
        assert_eq!(
            similar(&starts, 33, &on_y).len(),
            0,
            "four times the size is another job"
        );
    }

    #[test]
    fn forecast_quantiles_match_order_statistics() {
        // For 1..=19, p·20 is the 2nd, the 10th and the 18th value.
        let past: Vec<PastStart> = (1..=19)
            .map(|wait| PastStart {
                nodes: BTreeSet::new(),
                gpus: 1,
                waited: f64::from(wait),
            })
            .collect();
        let starts: Vec<&PastStart> = past.iter().collect();
        let at_once = forecast(&starts, 0.0).unwrap();
        assert_eq!(
            (at_once.p10, at_once.p50, at_once.p90, at_once.starts),
            (2.0, 10.0, 18.0, 19)
        );
        // A job that has waited 9 is compared with 10..=19, which still had 1..=10 to wait. p·11 is
        // 1.1, 5.5 and 9.9.
        let waited = forecast(&starts, 9.0).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(
            near(waited.p10, 1.1) && near(waited.p50, 5.5) && near(waited.p90, 9.9),
            "{waited:?}"
        );
        assert_eq!(forecast(&starts, 10.0), None, "nine are too few");
    }

    /// Simulates a cluster of 64 GPUs with random arrivals and run times, which serves jobs of 1 to
    /// 8 GPUs in order of arrival. Each forecast uses only jobs that started before it.
    #[test]
    fn interval_contains_four_of_five_starts() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let sizes = [1_usize, 2, 4, 8];
        let mut free_at = vec![0.0_f64; 64];
        let (mut now, mut last_start) = (0.0_f64, 0.0_f64);
        let nodes: BTreeSet<String> = ["a".to_owned()].into();
        // Arrival, start and size of each job.
        let mut jobs: Vec<(f64, f64, u64)> = Vec::new();
        for _ in 0..60_000 {
            now += -(1.0 - random()).ln() * 240.0;
            let size = sizes[whole::to_usize(random() * 4.0)];
            let runs = -(1.0 - random()).ln() * 3300.0;
            free_at.sort_by(f64::total_cmp);
            let start = now.max(free_at[size - 1]).max(last_start);
            free_at[..size].iter_mut().for_each(|at| *at = start + runs);
            last_start = start;
            jobs.push((now, start, size as u64));
        }
        let (mut forecasts, mut within) = (0_u32, 0_u32);
        for index in (5_000..60_000).step_by(100) {
            let (came, start, size) = jobs[index];
            // Forecast one minute after the job arrives.
            let at = came + 60.0;
            if start <= at || forecasts == 300 {
                continue;
            }
            let earlier = jobs[index - 5_000..index]
                .iter()
                .filter(|(_, started, _)| *started < at);
            let past: Vec<PastStart> = earlier
                .map(|(came, started, size)| PastStart {
                    nodes: nodes.clone(),
                    gpus: *size,
                    waited: started - came,
                })
                .collect();
            let Some(forecast) = forecast(&similar(&past, size, &nodes), 60.0) else {
                continue;
            };
            forecasts += 1;
            within += u32::from((forecast.p10..=forecast.p90).contains(&(start - at)));
        }
        let share = f64::from(within) / f64::from(forecasts);
        assert!(
            forecasts >= 200 && (0.75..=0.85).contains(&share),
            "{within} of {forecasts}: {share}"
        );
    }
}
