//! Chooses the devices to score: those that a pod holds, each from its measurements since the pod
//! started.

use std::collections::BTreeMap;

use crate::model::facts::reading::PodKey;
use crate::model::{Consumers, Inventory, NodeUsage, Reading, Readings, UnixSeconds};

use super::opinion::Opinion;
use super::serving::Serving;
use super::value::{Band, Score, Thresholds, Weights};
use crate::stats::exporters::dialect::Quantity;
use crate::stats::history::curves::{History, Trace};

/// A device with its score.
#[derive(Clone, Debug)]
pub struct Scored {
    pub reading: Reading,
    /// False for a device that a pod holds and no exporter tells of.
    pub measured: bool,
    pub score: Score,
    /// True when its pod has had it for all of the window and no sample of its utilization is
    /// missing.
    pub whole: bool,
    /// What the score was made of.
    pub trace: Option<Trace>,
    /// What an AI made of it.
    pub opinion: Option<Opinion>,
    /// What its pods told of requests; `None` for pods that serve nobody, as far as is known.
    pub serving: Option<Serving>,
    /// True when that opinion is sure enough that somebody works there.
    pub spared: bool,
}

impl Scored {
    /// Takes over what its pods told of requests: a server that answers is not low, and one that
    /// does not is idle, whatever its score.
    pub fn served(&mut self, told: &BTreeMap<PodKey, Serving>) {
        let known: Vec<Serving> = self
            .reading
            .holders
            .iter()
            .filter_map(|holder| told.get(holder).copied())
            .collect();
        let all_idle = known.len() == self.reading.holders.len()
            && known.iter().all(|one| *one == Serving::Idle);
        self.serving = match known.as_slice() {
            [] => None,
            _ if known.contains(&Serving::Active) => Some(Serving::Active),
            _ => all_idle.then_some(Serving::Idle),
        };
        self.score.band = match (self.serving, self.score.band) {
            (_, Band::Unknown) => Band::Unknown,
            (Some(Serving::Active), Band::Idle | Band::Low) => Band::Normal,
            (Some(Serving::Idle), _) => Band::Idle,
            (_, band) => band,
        };
    }

    /// Returns the UUID, else node and number; `None` for a device that no exporter reports.
    pub fn id(&self) -> Option<String> {
        let named = || format!("{}/{}", self.reading.node, self.reading.id());
        self.measured
            .then(|| self.reading.uuid.clone().unwrap_or_else(named))
    }

    /// Returns namespace and pod that hold it; the first where it is shared.
    pub fn holder(&self) -> (Option<&str>, Option<&str>) {
        let first = self.reading.holders.first();
        (
            first.map(|(namespace, _)| namespace.as_str()),
            first.map(|(_, pod)| pod.as_str()),
        )
    }

    /// Returns true below the threshold when held and not exempt. Free devices are nobody's waste.
    pub fn is_low(&self) -> bool {
        self.score.band.is_low() && self.reading.held == Some(true) && !self.spared
    }

    /// Returns true when a machine may act on it: it is below a threshold whatever was not
    /// measured, and its data cover the window.
    pub fn is_certain(&self, threshold: f64) -> bool {
        // Terms that nobody measured might be anything.
        let surely = self
            .score
            .at_most
            .is_some_and(|highest| highest < threshold);
        surely
            && self.whole
            && self.measured
            && !self.reading.stale
            && self.score.band != Band::Unknown
    }
}

/// How devices are scored.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub start: UnixSeconds,
    pub end: UnixSeconds,
    /// Seconds between two samples.
    pub step: i64,
    /// Seconds for which a value stands for what came after it.
    pub lookback: i64,
    pub weights: Weights,
    pub thresholds: Thresholds,
}

impl Rules {
    /// Samples that the window has room for.
    pub fn expected(&self) -> usize {
        usize::try_from((self.end - self.start) / self.step.max(1) + 1).unwrap_or(1)
    }

    /// Returns true when samples are there from one end of the window to the other, none left out:
    /// two steps apart at most.
    fn covers(&self, trace: &Trace) -> bool {
        let times = trace
            .curve(Quantity::Utilization)
            .iter()
            .map(|point| point.at);
        let (start, end, most) = (self.start.millis(), self.end.millis(), self.step * 2000);
        let mut last = start;
        for at in times {
            if at - last > most {
                return false;
            }
            last = at;
        }
        last > start && end - last <= most
    }
}

/// Scores every device, those that are held and silent among them. `consumers` is `None` when pods
/// may not be listed.
pub fn scored(
    readings: &Readings,
    history: &History,
    inventory: &Inventory,
    consumers: Option<&Consumers>,
    rules: &Rules,
) -> Vec<Scored> {
    let starts: BTreeMap<PodKey, i64> = consumers
        .into_iter()
        .flat_map(|all| &all.with_devices)
        .filter_map(|pod| {
            Some((
                (pod.namespace.to_string(), pod.name.to_string()),
                pod.runs_since?.as_millisecond(),
            ))
        })
        .collect();
    let traces = Traces::of(history);
    let lost = inventory
        .hosts
        .iter()
        .flat_map(|host| lost(host, readings, history));
    let all = readings
        .devices
        .iter()
        .map(|reading| (reading.clone(), true))
        .chain(lost);
    let mut scored: Vec<Scored> = all
        .map(|(reading, measured)| {
            let found = traces.find(&reading).filter(|_| measured);
            // What was measured before its pod began was somebody else's, or nobody's, whatever
            // labels it had.
            let begins: Option<Vec<i64>> = reading
                .holders
                .iter()
                .map(|holder| starts.get(holder).copied())
                .collect();
            let begin = match (reading.held, begins) {
                (Some(true), begins) => begins.and_then(|begins| begins.into_iter().max()),
                (Some(false), _) => Some(i64::MIN),
                // Somebody may have it since a moment ago.
                (None, _) => None,
            };
            // What stands for a time may be a little older than it.
            let trace = found
                .zip(begin)
                .map(|(trace, begin)| trace.since(begin.saturating_add(rules.lookback * 1000)));
            let expected = rules.expected();
            let of = |trace: &Trace| Score::of(trace, expected, rules.weights, rules.thresholds);
            let score = trace.as_ref().map_or_else(|| Score::unknown(expected), of);
            let whole = begin.is_some_and(|begin| begin <= rules.start.millis())
                && trace.as_ref().is_some_and(|trace| rules.covers(trace));
            Scored {
                reading,
                measured,
                score,
                whole,
                trace,
                opinion: None,
                serving: None,
                spared: false,
            }
        })
        .collect();
    scored.sort_by(|a, b| {
        let key = |one: &Scored| {
            (
                one.reading.node.clone(),
                !one.measured,
                one.reading.index,
                one.reading.slice.clone(),
                one.reading.holders.clone(),
            )
        };
        key(a).cmp(&key(b))
    });
    scored
}

/// Curves by who they are of.
struct Traces<'h> {
    by_uuid: BTreeMap<TraceKey<'h, &'h str>, &'h Trace>,
    by_index: BTreeMap<TraceKey<'h, u32>, &'h Trace>,
}

/// Node, UUID or number, slice.
type TraceKey<'h, I> = (&'h str, I, Option<&'h (String, u32)>);

impl<'h> Traces<'h> {
    fn of(history: &'h History) -> Self {
        let named = |trace: &'h Trace| {
            Some((
                (
                    trace.node.as_str(),
                    trace.uuid.as_deref()?,
                    trace.slice.as_ref(),
                ),
                trace,
            ))
        };
        let by_uuid = history.traces.iter().filter_map(named).collect();
        let by_index = history
            .traces
            .iter()
            .map(|trace| {
                (
                    (trace.node.as_str(), trace.index, trace.slice.as_ref()),
                    trace,
                )
            })
            .collect();
        Self { by_uuid, by_index }
    }

    /// Numbers are made up where an exporter tells none, so a UUID comes first.
    fn find(&self, reading: &Reading) -> Option<&'h Trace> {
        let (node, slice) = (reading.node.as_str(), reading.slice.as_ref());
        let named = reading
            .uuid
            .as_deref()
            .and_then(|uuid| self.by_uuid.get(&(node, uuid, slice)));
        let numbered = || {
            let found = self.by_index.get(&(node, reading.index, slice))?;
            (found.uuid.is_none() || reading.uuid.is_none()).then_some(found)
        };
        named.or_else(numbered).copied()
    }
}

/// Devices that pods of a node hold and that measure nothing now: as they were in the window, else
/// without a name.
fn lost(host: &NodeUsage, readings: &Readings, history: &History) -> Vec<(Reading, bool)> {
    let own: Vec<&Reading> = readings
        .devices
        .iter()
        .filter(|reading| reading.node == host.name())
        .collect();
    let instances = |name: &str| name.starts_with("mig-") || name.contains("_nps");
    let held = own
        .iter()
        .filter(|reading| reading.held == Some(true))
        .count() as u64;
    let wants: Vec<(PodKey, u64)> = host
        .holders
        .iter()
        .map(|holder| {
            let sliced: u64 = holder
                .slices
                .iter()
                .filter(|(name, _)| instances(name))
                .map(|(_, count)| *count)
                .sum();
            (
                (holder.namespace.to_string(), holder.pod.to_string()),
                holder.gpus.0 + sliced,
            )
        })
        .collect();
    let mut missing = wants
        .iter()
        .map(|(_, count)| count)
        .sum::<u64>()
        .saturating_sub(held);
    let seen = |trace: &&Trace| {
        own.iter()
            .any(|reading| match (&reading.uuid, &trace.uuid) {
                (Some(ours), Some(theirs)) => (ours, &reading.slice) == (theirs, &trace.slice),
                _ => (reading.index, &reading.slice) == (trace.index, &trace.slice),
            })
    };
    let mut silent: Vec<&Trace> = history
        .traces
        .iter()
        .filter(|trace| trace.node == host.name())
        .filter(|trace| !seen(trace))
        .collect();
    let mut lost = Vec::new();
    for (pod, wanted) in wants {
        let named = own
            .iter()
            .filter(|reading| reading.holders.contains(&pod))
            .count() as u64;
        for _ in 0..wanted.saturating_sub(named).min(missing) {
            let place = silent.iter().position(|trace| trace.pods.contains(&pod));
            let reading = Reading {
                node: host.name().to_owned(),
                holders: vec![pod.clone()],
                held: Some(true),
                ..Reading::default()
            };
            lost.push(match place.map(|place| silent.remove(place)) {
                None => (reading, false),
                Some(trace) => {
                    let Trace {
                        index,
                        slice,
                        model,
                        uuid,
                        ..
                    } = trace.clone();
                    (
                        Reading {
                            index,
                            slice,
                            model,
                            uuid,
                            stale: true,
                            ..reading
                        },
                        true,
                    )
                }
            });
            missing -= 1;
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GpuCount;
    use crate::model::counting::inventory::{Count, Holder};
    use crate::model::{NodeDetails, NodeHealth, Point, Series};
    use crate::stats::exporters::identity::ApiFacts;
    use crate::stats::history::curves as history;
    use crate::stats::history::curves::Lifetimes;

    const RULES: Rules = Rules {
        start: UnixSeconds(0),
        end: UnixSeconds(600),
        step: 30,
        lookback: 60,
        weights: Weights {
            utilization: 0.5,
            memory_copy: 0.2,
            memory_used: 0.2,
            power: 0.1,
        },
        thresholds: Thresholds {
            idle: 10.0,
            low: 20.0,
            high: 70.0,
        },
    };

    fn history(pod: &str, index: u32, times: impl Iterator<Item = i64>) -> History {
        let labels = [
            ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
            ("Hostname", "n"),
            ("UUID", "GPU-x"),
            ("namespace", "t"),
            ("pod", pod),
        ];
        let mut labels: BTreeMap<String, String> = labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        labels.insert("gpu".to_owned(), index.to_string());
        let points = times
            .map(|second| Point {
                at: second * 1000,
                value: 3.0,
            })
            .collect();
        history::read(
            &[Series {
                labels: labels.into_iter().collect(),
                points,
            }],
            &ApiFacts::default(),
            &Lifetimes::new(),
        )
    }

    #[test]
    fn a_window_is_covered_without_a_gap_of_more_than_two_steps() {
        let covers =
            |times: &[i64]| RULES.covers(&history("p", 0, times.iter().copied()).traces[0]);
        let all: Vec<i64> = (0..=600).step_by(30).collect();
        assert!(covers(&all));
        let without = |gap: std::ops::Range<i64>| {
            all.iter()
                .copied()
                .filter(|at| !gap.contains(at))
                .collect::<Vec<_>>()
        };
        assert!(covers(&without(300..330)), "one sample");
        assert!(!covers(&without(300..360)), "two samples in a row");
        assert!(!covers(&without(0..90)), "younger than the window");
        assert!(!covers(&without(540..601)), "nothing lately");
        assert!(!covers(&[0]), "nothing else");
    }

    #[test]
    fn held_devices_that_measure_nothing_are_there_and_unknown() {
        let holder = |pod: &str, gpus| Holder {
            namespace: "t".into(),
            pod: pod.into(),
            job: None,
            gpus,
            slices: BTreeMap::new(),
        };
        let mut host = NodeDetails::default();
        host.node.name = "n".to_owned();
        let mut host = crate::model::NodeUsage {
            details: host,
            health: NodeHealth::Active,
            reason: None,
            gpus: Count {
                total: 8,
                used: Some(3),
            },
            slices: BTreeMap::new(),
            types: BTreeMap::new(),
            cpu_used_milli: None,
            memory_used_bytes: None,
            holders: vec![holder("p", GpuCount(2)), holder("q", GpuCount(1))],
            devices: None,
        };
        let reading = Reading {
            node: "n".to_owned(),
            holders: vec![("t".to_owned(), "p".to_owned())],
            held: Some(true),
            ..Reading::default()
        };
        let readings = Readings::new(vec![reading], 1, 0, 0);
        let found = lost(&host, &readings, &history("p", 5, 0..3));
        let told: Vec<_> = found
            .iter()
            .map(|(one, measured)| (one.holders[0].1.as_str(), one.index, *measured))
            .collect();
        assert_eq!(told, [("p", 5, true), ("q", 0, false)]);
        assert_eq!(found[0].0.uuid.as_deref(), Some("GPU-x"));
        // All are there already, though nobody says who has which.
        host.holders = vec![holder("q", GpuCount(1))];
        assert!(lost(&host, &readings, &History::default()).is_empty());
        let inventory = Inventory { hosts: vec![host] };
        let all = scored(
            &Readings::default(),
            &History::default(),
            &inventory,
            None,
            &RULES,
        );
        assert_eq!(
            (
                all.len(),
                all[0].score.band,
                all[0].id(),
                all[0].is_certain(20.0)
            ),
            (1, Band::Unknown, None, false)
        );
    }
}
