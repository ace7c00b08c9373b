//! Selects the devices to score, and scores each by its samples since its pod started.

use std::collections::BTreeMap;

use crate::model::facts::reading::PodKey;
use crate::model::facts::unit::is_instance;
use crate::model::values::natural::Natural;
use crate::model::{Consumers, Inventory, NodeUsage, Reading, Readings, UnixSeconds};

use super::opinion::Opinion;
use super::serving::Serving;
use super::value::{Band, Score, Thresholds, Weights};
use crate::stats::exporters::dialect::Quantity;
use crate::stats::history::curves::{History, Trace};

/// A device and its score.
#[derive(Clone, Debug)]
pub struct Scored {
    pub reading: Reading,
    /// False for a held device that no exporter reports.
    pub measured: bool,
    pub score: Score,
    /// True if the pod held the device for the whole window, without gaps in utilization.
    pub whole: bool,
    /// Curves behind the score.
    pub trace: Option<Trace>,
    /// Opinion of an AI.
    pub opinion: Option<Opinion>,
    /// Request activity of the device's pods, or `None` for pods without request metrics.
    pub serving: Option<Serving>,
    /// True if an AI is confident enough that the device is in use.
    pub spared: bool,
}

impl Scored {
    /// Applies the request activity of the device's pods. At any score, a server that answers
    /// requests is not low, and a server that does not is idle.
    pub fn set_serving(&mut self, by_pod: &BTreeMap<PodKey, Serving>) {
        let serving: Vec<Serving> = self
            .reading
            .holders
            .iter()
            .filter_map(|holder| by_pod.get(holder).copied())
            .collect();
        let all_idle = serving.len() == self.reading.holders.len()
            && serving.iter().all(|activity| *activity == Serving::Idle);
        self.serving = match serving.as_slice() {
            [] => None,
            _ if serving.contains(&Serving::Active) => Some(Serving::Active),
            _ => all_idle.then_some(Serving::Idle),
        };
        self.score.band = match (self.serving, self.score.band) {
            (_, Band::Unknown) => Band::Unknown,
            (Some(Serving::Active), Band::Idle | Band::Low) => Band::Normal,
            (Some(Serving::Idle), _) => Band::Idle,
            (_, band) => band,
        };
    }

    /// Returns the UUID of the device, or otherwise its node and number. Returns `None` if no
    /// exporter reports the device.
    pub fn id(&self) -> Option<String> {
        let name = || format!("{}/{}", self.reading.node, self.reading.id());
        self.measured
            .then(|| self.reading.uuid.clone().unwrap_or_else(name))
    }

    /// Returns namespace and name of the pod that holds the device; the first pod of a shared
    /// device.
    pub fn holder(&self) -> (Option<&str>, Option<&str>) {
        let first = self.reading.holders.first();
        (
            first.map(|(namespace, _)| namespace.as_str()),
            first.map(|(_, pod)| pod.as_str()),
        )
    }

    /// Returns true if a held device is below the threshold and not exempt. A free device is never
    /// low, because no pod wastes it.
    pub fn is_low(&self) -> bool {
        self.score.band.is_low() && self.reading.held == Some(true) && !self.spared
    }

    /// Returns true if automation may act on the device: its samples cover the window, and it would
    /// be below the threshold even if all unmeasured terms were at their highest.
    pub fn is_certain(&self, threshold: f64) -> bool {
        // Unmeasured terms could have any value.
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

/// Counts the whole devices and instances that each pod holds.
pub fn held_by_pod(inventory: &Inventory) -> BTreeMap<PodKey, u64> {
    inventory.hosts.iter().flat_map(held_devices).collect()
}

/// Parameters of the scores.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub start: UnixSeconds,
    pub end: UnixSeconds,
    /// Seconds between two samples.
    pub step: i64,
    /// Seconds for which a sample remains valid.
    pub lookback: i64,
    pub weights: Weights,
    pub thresholds: Thresholds,
}

impl Rules {
    /// Returns the number of samples in a complete window.
    pub fn expected(&self) -> usize {
        usize::try_from((self.end - self.start) / self.step.max(1) + 1).unwrap_or(1)
    }

    /// Returns true if samples cover the window from start to end, with gaps of at most two steps.
    fn covers(&self, trace: &Trace) -> bool {
        let times = trace
            .curve(Quantity::Utilization)
            .iter()
            .map(|point| point.at);
        let (start, end, max_gap) = (self.start.millis(), self.end.millis(), self.step * 2000);
        let mut last = start;
        for time in times {
            if time - last > max_gap {
                return false;
            }
            last = time;
        }
        last > start && end - last <= max_gap
    }
}

/// Scores every device, including held devices without samples. `consumers` is `None` if pods
/// cannot be listed.
pub fn scored(
    readings: &Readings,
    history: &History,
    inventory: &Inventory,
    consumers: Option<&Consumers>,
    rules: &Rules,
) -> Vec<Scored> {
    let starts: BTreeMap<PodKey, i64> = consumers
        .into_iter()
        .flat_map(|cluster_consumers| &cluster_consumers.with_devices)
        .filter_map(|pod| {
            Some((
                (pod.namespace.to_string(), pod.name.to_string()),
                pod.runs_since?.as_millisecond(),
            ))
        })
        .collect();
    let traces = Traces::new(history);
    let lost = inventory
        .hosts
        .iter()
        .flat_map(|host| lost(host, readings, history));
    let cluster_consumers = readings
        .devices
        .iter()
        .map(|reading| (reading.clone(), true))
        .chain(lost);
    let mut scored: Vec<Scored> = cluster_consumers
        .map(|(reading, measured)| {
            let trace = traces.find(&reading).filter(|_| measured);
            score(reading, measured, trace, &starts, rules)
        })
        .collect();
    scored.sort_by(|a, b| {
        let [a, b] = [a, b].map(|device| {
            let reading = &device.reading;
            let node = Natural(&reading.node);
            (
                node,
                !device.measured,
                reading.index,
                &reading.slice,
                &reading.holders,
            )
        });
        a.cmp(&b)
    });
    scored
}

/// Scores one device by its samples since its pods started.
fn score(
    reading: Reading,
    measured: bool,
    trace: Option<&Trace>,
    starts: &BTreeMap<PodKey, i64>,
    rules: &Rules,
) -> Scored {
    // Earlier samples belong to an earlier holder, whatever their labels say.
    let begins: Option<Vec<i64>> = reading
        .holders
        .iter()
        .map(|holder| starts.get(holder).copied())
        .collect();
    let begin = match (reading.held, begins) {
        (Some(true), begins) => begins.and_then(|begins| begins.into_iter().max()),
        (Some(false), _) => Some(i64::MIN),
        // If it is unknown whether the device is held, a pod may have received it just now.
        (None, _) => None,
    };
    // A sample may be up to `lookback` older than the time for which it is used.
    let trace = trace
        .zip(begin)
        .map(|(trace, begin)| trace.since(begin.saturating_add(rules.lookback * 1000)));
    let expected = rules.expected();
    let score = trace.as_ref().map_or_else(
        || Score::unknown(expected),
        |trace| Score::new(trace, expected, rules.weights, rules.thresholds),
    );
    let is_complete = begin.is_some_and(|begin| begin <= rules.start.millis())
        && trace.as_ref().is_some_and(|trace| rules.covers(trace));
    Scored {
        reading,
        measured,
        score,
        whole: is_complete,
        trace,
        opinion: None,
        serving: None,
        spared: false,
    }
}

/// Curves by device.
struct Traces<'h> {
    by_uuid: BTreeMap<TraceKey<'h, &'h str>, &'h Trace>,
    by_index: BTreeMap<TraceKey<'h, u32>, &'h Trace>,
}

/// Node, UUID or number, and slice.
type TraceKey<'h, I> = (&'h str, I, Option<&'h (String, u32)>);

impl<'h> Traces<'h> {
    fn new(history: &'h History) -> Self {
        let uuid_key = |trace: &'h Trace| {
            Some((
                (
                    trace.node.as_str(),
                    trace.uuid.as_deref()?,
                    trace.slice.as_ref(),
                ),
                trace,
            ))
        };
        let by_uuid = history.traces.iter().filter_map(uuid_key).collect();
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

    /// Looks up a trace by UUID first, because gpuctl itself assigns the numbers for some
    /// exporters.
    fn find(&self, reading: &Reading) -> Option<&'h Trace> {
        let (node, slice) = (reading.node.as_str(), reading.slice.as_ref());
        let by_uuid = reading
            .uuid
            .as_deref()
            .and_then(|uuid| self.by_uuid.get(&(node, uuid, slice)));
        let numbered = || {
            let trace = self.by_index.get(&(node, reading.index, slice))?;
            (trace.uuid.is_none() || reading.uuid.is_none()).then_some(trace)
        };
        by_uuid.or_else(numbered).copied()
    }
}

/// Returns held devices of a node without a current sample. A curve in the window identifies such a
/// device. Without a curve, the device has no name.
fn lost(host: &NodeUsage, readings: &Readings, history: &History) -> Vec<(Reading, bool)> {
    let measured: Vec<&Reading> = readings
        .devices
        .iter()
        .filter(|reading| reading.node == host.name())
        .collect();
    let held = measured
        .iter()
        .filter(|reading| reading.held == Some(true))
        .count() as u64;
    let wants = held_devices(host);
    let mut missing = wants
        .iter()
        .map(|(_, count)| count)
        .sum::<u64>()
        .saturating_sub(held);
    let mut silent: Vec<&Trace> = history
        .traces
        .iter()
        .filter(|trace| trace.node == host.name())
        .filter(|trace| !measured.iter().any(|reading| matches_trace(reading, trace)))
        .collect();
    let mut lost = Vec::new();
    for (pod, expected) in wants {
        let attributed = measured
            .iter()
            .filter(|reading| reading.holders.contains(&pod))
            .count() as u64;
        for _ in 0..expected.saturating_sub(attributed).min(missing) {
            let position = silent.iter().position(|trace| trace.pods.contains(&pod));
            let trace = position.map(|position| silent.remove(position));
            lost.push(silent_reading(host, &pod, trace));
            missing -= 1;
        }
    }
    lost
}

/// Returns the pods of a node, with the number of devices and instances that each holds.
fn held_devices(host: &NodeUsage) -> Vec<(PodKey, u64)> {
    host.holders
        .iter()
        .map(|holder| {
            let sliced: u64 = holder
                .slices
                .iter()
                .filter(|(name, _)| is_instance(name))
                .map(|(_, count)| *count)
                .sum();
            (
                (holder.namespace.to_string(), holder.pod.to_string()),
                holder.gpus.0 + sliced,
            )
        })
        .collect()
}

/// Returns true if a reading and a curve belong to the same device of a node.
fn matches_trace(reading: &Reading, trace: &Trace) -> bool {
    match (&reading.uuid, &trace.uuid) {
        (Some(uuid), Some(trace_uuid)) => (uuid, &reading.slice) == (trace_uuid, &trace.slice),
        _ => (reading.index, &reading.slice) == (trace.index, &trace.slice),
    }
}

/// Builds the reading of a held device without a current sample. The flag is true if the device has
/// a curve.
fn silent_reading(host: &NodeUsage, pod: &PodKey, trace: Option<&Trace>) -> (Reading, bool) {
    let reading = Reading {
        node: host.name().to_owned(),
        holders: vec![pod.clone()],
        held: Some(true),
        ..Reading::default()
    };
    let Some(trace) = trace else {
        return (reading, false);
    };
    let reading = Reading {
        index: trace.index,
        slice: trace.slice.clone(),
        model: trace.model.clone(),
        uuid: trace.uuid.clone(),
        stale: true,
        ..reading
    };
    (reading, true)
}

#[cfg(test)]
mod tests;
