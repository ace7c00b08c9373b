//! Builds one curve per device and quantity from the samples of a window. Gaps in the samples
//! remain gaps in the curves.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::facts::reading::PodKey;
use crate::model::{DeviceId, Mebibytes, Point, Series};
use crate::stats::exporters::device_numbers::DeviceNumbers;
use crate::stats::exporters::dialect::{Quantity, metric_of};
use crate::stats::exporters::identity::{ApiFacts, IdentityReader, SeriesDevice};
use crate::stats::exporters::limits;

/// The curves of one device in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    pub node: String,
    pub index: u32,
    pub slice: Option<(String, u32)>,
    pub model: Option<String>,
    pub uuid: Option<String>,
    /// Pods that held the device in the window.
    pub pods: BTreeSet<PodKey>,
    curves: BTreeMap<Quantity, Vec<Point>>,
}

/// Traces of all devices, and the number of dropped samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Traces, sorted by node, number and slice.
    pub traces: Vec<Trace>,
    pub samples: u64,
    /// Number of samples with a physically impossible value.
    pub dropped: u64,
}

/// Lifetimes of pods in Unix milliseconds. Samples outside a pod's lifetime belong to another pod.
pub type Lifetimes = BTreeMap<PodKey, (Option<i64>, Option<i64>)>;

/// Values by time, with the rank of the metric and whether the series names a pod. The lowest pair
/// of rank and flag wins.
type Best = BTreeMap<i64, (u8, bool, f64)>;

impl Trace {
    /// Returns the curve of a quantity, sorted by time, or an empty slice without samples.
    pub fn curve(&self, quantity: Quantity) -> &[Point] {
        self.curves.get(&quantity).map_or(&[], Vec::as_slice)
    }

    /// Returns a copy without samples before a time in Unix milliseconds.
    #[must_use]
    pub fn since(&self, at: i64) -> Self {
        let mut cut = self.clone();
        cut.curves
            .values_mut()
            .for_each(|curve| curve.retain(|point| point.at >= at));
        cut
    }

    /// Creates a trace that has only curves.
    #[cfg(any(test, feature = "testing"))]
    pub fn from_curves(
        node: &str,
        index: u32,
        model: &str,
        curves: BTreeMap<Quantity, Vec<Point>>,
    ) -> Self {
        Self {
            node: node.to_owned(),
            index,
            model: Some(model.to_owned()),
            curves,
            ..Self::default()
        }
    }

    /// Returns a copy without samples after a time in Unix milliseconds.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn until(&self, at: i64) -> Self {
        let mut cut = self.clone();
        cut.curves
            .values_mut()
            .for_each(|curve| curve.retain(|point| point.at <= at));
        cut
    }

    /// Returns the id of the device on its node.
    pub fn id(&self) -> DeviceId {
        DeviceId {
            index: self.index,
            slice: self.slice.clone(),
        }
    }

    /// Computes the used memory in percent of the total, for each time at which both are known.
    pub fn memory_share(&self) -> Vec<Point> {
        let free: BTreeMap<i64, f64> = self
            .curve(Quantity::MemoryFree)
            .iter()
            .map(|point| (point.at, point.value))
            .collect();
        let total: BTreeMap<i64, f64> = self
            .curve(Quantity::MemoryTotal)
            .iter()
            .map(|point| (point.at, point.value))
            .collect();
        // If no total was measured, use the memory size of the model.
        let totals_missing = self.slice.is_none() && free.is_empty() && total.is_empty();
        let usual = self
            .model
            .as_deref()
            .filter(|_| totals_missing)
            .and_then(limits::memory);
        let share = |point: &Point| {
            let measured = free
                .get(&point.at)
                .map(|free| free + point.value)
                .or_else(|| total.get(&point.at).copied());
            let capacity = measured.or(usual.map(|Mebibytes(capacity)| capacity))?;
            (capacity > 0.0).then(|| Point {
                at: point.at,
                value: (point.value / capacity * 100.0).min(100.0),
            })
        };
        self.curve(Quantity::MemoryUsed)
            .iter()
            .filter_map(share)
            .collect()
    }
}

/// Reads the devices of a query result.
pub fn read(answer: &[Series], facts: &ApiFacts, lifetimes: &Lifetimes) -> History {
    let reader = IdentityReader::new(facts, answer);
    let numbers =
        DeviceNumbers::from_devices(answer.iter().filter_map(|series| reader.device(series)));
    let mut history = History::default();
    let mut devices: BTreeMap<SeriesDevice, DeviceCurves> = BTreeMap::new();
    for series in answer {
        let Some((metric, identity)) = metric_of(series.name()).zip(reader.device(series)) else {
            continue;
        };
        if !identity.reports(series, metric.quantity) {
            continue;
        }
        let pod = reader.named_pod(series);
        let (from, to) = pod
            .as_ref()
            .and_then(|pod| lifetimes.get(pod))
            .copied()
            .unwrap_or_default();
        let DeviceCurves { trace, quantities } =
            devices.entry(numbers.key(identity.clone())).or_default();
        trace.model = trace
            .model
            .take()
            .or_else(|| IdentityReader::model(series).map(ToOwned::to_owned));
        trace.uuid = trace.uuid.take().or_else(|| identity.uuid.clone());
        let has_pod = pod.is_some();
        trace.pods.extend(pod);
        let best = quantities.entry(metric.quantity).or_default();
        for point in &series.points {
            let lived =
                from.is_none_or(|from| point.at >= from) && to.is_none_or(|to| point.at <= to);
            match metric.read(point.value) {
                None => history.dropped += 1,
                Some(value) if lived && identity.describes(metric, value) => {
                    history.samples += 1;
                    keep_best(best, point.at, (identity.rank(metric), has_pod, value));
                }
                Some(_) => {}
            }
        }
    }
    history.traces = devices
        .into_iter()
        .filter_map(|(identity, device)| device.into_trace(identity))
        .collect();
    history
}

/// Stores the value with the lowest rank or, with equal ranks, the highest value.
fn keep_best(best: &mut Best, at: i64, new: (u8, bool, f64)) {
    let kept = best.entry(at).or_insert(new);
    let (rank, kept_rank) = ((new.0, new.1), (kept.0, kept.1));
    if rank < kept_rank || (rank == kept_rank && new.2 > kept.2) {
        *kept = new;
    }
}

/// A device whose series are being read.
#[derive(Default)]
struct DeviceCurves {
    trace: Trace,
    quantities: BTreeMap<Quantity, Best>,
}

impl DeviceCurves {
    /// Builds the trace, or returns `None` if all its curves are empty.
    fn into_trace(self, device: SeriesDevice) -> Option<Trace> {
        let curve = |best: Best| -> Vec<Point> {
            best.into_iter()
                .map(|(at, (.., value))| Point { at, value })
                .collect()
        };
        let curves: BTreeMap<Quantity, Vec<Point>> = self
            .quantities
            .into_iter()
            .map(|(quantity, best)| (quantity, curve(best)))
            .collect();
        let is_measured = curves.values().any(|curve| !curve.is_empty());
        is_measured.then(|| Trace {
            node: device.node,
            slice: device.slice,
            // A series without number and UUID belongs to the only device of its node.
            index: device.index.unwrap_or(0),
            curves,
            ..self.trace
        })
    }
}

/// Averages curves at each time at which at least one of them has a sample.
pub fn mean<'a>(curves: impl Iterator<Item = &'a [Point]>) -> Vec<Point> {
    let mut sums: BTreeMap<i64, (f64, u32)> = BTreeMap::new();
    for point in curves.flatten() {
        let (sum, count) = sums.entry(point.at).or_default();
        *sum += point.value;
        *count += 1;
    }
    sums.into_iter()
        .map(|(at, (sum, count))| Point {
            at,
            value: sum / f64::from(count),
        })
        .collect()
}

/// Describes devices that look unused over a window, judged by their highest utilization. Returns
/// `None` if there are too few samples or no such devices.
pub fn unused(history: &History, expected: usize) -> Option<String> {
    /// Highest utilization, in percent, of a device that does no real work.
    const IDLE: f64 = 1.0;
    let curves: Vec<&[Point]> = history
        .traces
        .iter()
        .map(|trace| trace.curve(Quantity::Utilization))
        .collect();
    let measured: Vec<&&[Point]> = curves
        .iter()
        .filter(|curve| curve.len() * 2 >= expected.max(2))
        .collect();
    if measured.is_empty() {
        return None;
    }
    let idle = measured
        .iter()
        .filter(|curve| curve.iter().all(|point| point.value <= IDLE))
        .count();
    match (idle, measured.len()) {
        (0, _) => None,
        (idle, total) if idle == total && total == 1 => {
            Some("its GPU was idle in every sample of this period".to_owned())
        }
        (idle, total) if idle == total => Some(format!(
            "all {total} of its sampled GPUs were idle in every sample of this period"
        )),
        (idle, total) => Some(format!(
            "{idle} of its {total} sampled GPUs {} idle in every sample of this period",
            if idle == 1 { "was" } else { "were" }
        )),
    }
}

#[cfg(test)]
mod tests;
