//! Compares the devices of a job with each other. If all devices wait, the job may hang. If one
//! device differs from the others for most of the window, it is slow, or the others wait for it.
//! Utilization alone proves nothing, because ranks that wait spin at 100 %.
//!
//! The method follows Minder (arXiv 2411.01791): compare the devices of one job, measure the
//! distance from the median, and require continuity over the window.

use std::collections::BTreeMap;

use crate::model::values::whole;
use crate::model::{Point, Watts};
use crate::stats::exporters::dialect::Quantity;
use crate::stats::exporters::limits;
use crate::stats::history::curves::Trace;

/// Quantities that are read for each device.
pub const READ: [Quantity; 8] = [
    Quantity::Utilization,
    Quantity::Power,
    Quantity::PowerLimit,
    Quantity::Clock,
    Quantity::Temperature,
    Quantity::SmActive,
    Quantity::TensorActive,
    Quantity::Throttle,
];

/// Milliseconds at the end of the window that represent the current state of the job.
const RECENT: i64 = 120_000;
/// Minimum number of samples for judging a device.
const FEWEST: usize = 4;
/// Minimum fraction of samples that must differ.
const CONTINUOUS: f64 = 0.8;
/// Minimum deviation that counts, in scaled median absolute deviations. For normal noise, 1.4826
/// median absolute deviations equal one standard deviation.
const DEVIATIONS: f64 = 4.0;
const NORMAL: f64 = 1.4826;
/// A fully utilized device below this fraction of its power limit is waiting, because spinning
/// kernels draw little power.
const WAITING_POWER: f64 = 0.35;

/// Quantities to compare, with the minimum deviation as a fraction of the median and as an absolute
/// value. An outlier exceeds both.
const COMPARED: [(Quantity, f64, f64); 4] = [
    (Quantity::Clock, 0.05, 30.0),
    (Quantity::TensorActive, 0.25, 5.0),
    (Quantity::SmActive, 0.25, 10.0),
    (Quantity::Power, 0.2, 30.0),
];

#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Index of the device in the list.
    pub device: usize,
    pub quantity: Quantity,
    /// Median of the device over the window; the next field is the median of the other devices.
    pub value: f64,
    pub peers: f64,
}

/// State of a job's devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerReport {
    /// Number of devices with enough samples.
    pub sampled: usize,
    /// Devices that wait for others: fully utilized with little power.
    pub spinning: Vec<usize>,
    /// Devices without work.
    pub idle: Vec<usize>,
    /// Mean power of the spinning devices in watts.
    pub spinning_watts: Option<f64>,
    /// Mean power in watts of the spinning devices before the last step, if it was measured.
    pub earlier_watts: Option<f64>,
    /// Outliers, largest deviation first.
    pub deviations: Vec<Deviation>,
    /// Nodes without samples in the last part of the window, although other nodes have some.
    pub silent_nodes: Vec<String>,
}

/// Compares devices over a window that ends at `end`, in Unix milliseconds.
pub fn compare(traces: &[Trace], end: i64) -> PeerReport {
    let now: Vec<Trace> = traces
        .iter()
        .map(|trace| trace.since(end - RECENT))
        .collect();
    let mut report = PeerReport::default();
    let mut watts = Vec::new();
    for (index, trace) in now.iter().enumerate() {
        let (utilization, power) = (
            middle(trace, Quantity::Utilization),
            middle(trace, Quantity::Power),
        );
        let Some(utilization) = utilization else {
            continue;
        };
        report.sampled += 1;
        let limit = middle(trace, Quantity::PowerLimit).or_else(|| {
            trace
                .model
                .as_deref()
                .and_then(limits::watts)
                .map(|Watts(limit)| limit)
        });
        match (power, limit) {
            (Some(power), Some(limit)) if utilization >= 95.0 && power < limit * WAITING_POWER => {
                report.spinning.push(index);
                watts.push(power);
            }
            _ if utilization < 5.0 => report.idle.push(index),
            _ => {}
        }
    }
    report.spinning_watts =
        (!watts.is_empty()).then(|| watts.iter().sum::<f64>() / watts.len() as f64);
    report.silent_nodes = silent(traces, &now);
    for (quantity, share, least) in COMPARED {
        for deviation in deviations(traces, quantity, share, least) {
            // Report a device only for the first deviating quantity. A low clock, for example, also
            // reduces the power.
            if report
                .deviations
                .iter()
                .all(|earlier| earlier.device != deviation.device)
            {
                report.deviations.push(deviation);
            }
        }
    }
    report
}

/// Returns the utilization in percent and the power in watts of a device at the end of the window.
pub(super) fn current_power(trace: &Trace, end: i64) -> Option<(f64, f64)> {
    let now = trace.since(end - RECENT);
    middle(&now, Quantity::Utilization).zip(middle(&now, Quantity::Power))
}

/// Returns the nodes that have stopped reporting.
fn silent(traces: &[Trace], now: &[Trace]) -> Vec<String> {
    let is_measured = |trace: &Trace| {
        !trace.curve(Quantity::Utilization).is_empty() || !trace.curve(Quantity::Power).is_empty()
    };
    let mut silent: Vec<String> = traces
        .iter()
        .zip(now)
        .filter(|(before, now)| is_measured(before) && !is_measured(now))
        .map(|(before, _)| before.node.clone())
        .filter(|node| {
            !traces
                .iter()
                .zip(now)
                .any(|(before, now)| before.node == *node && is_measured(now))
        })
        .collect();
    silent.sort();
    silent.dedup();
    // If no node reports anything, the metrics store is at fault.
    if now.iter().any(is_measured) {
        silent
    } else {
        Vec::new()
    }
}

/// Computes the median of a curve, or returns `None` if it has too few samples.
pub(super) fn middle(trace: &Trace, quantity: Quantity) -> Option<f64> {
    let values: Vec<f64> = trace
        .curve(quantity)
        .iter()
        .map(|point| point.value)
        .collect();
    (values.len() >= FEWEST).then(|| median(values)).flatten()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[half]),
        _ => Some(f64::midpoint(values[half - 1], values[half])),
    }
}

/// Numbers of samples of a device that differed from the other devices.
#[derive(Clone, Copy, Default)]
struct StepCounts {
    seen: usize,
    above: usize,
    below: usize,
}

impl StepCounts {
    fn is_continuous(self) -> bool {
        let largest = self.above.max(self.below);
        self.seen >= FEWEST && largest as f64 >= self.seen as f64 * CONTINUOUS
    }
}

/// Counts how often each device differed from the median of all devices.
fn deviating_steps(curves: &[&[Point]], share: f64, least: f64) -> Vec<StepCounts> {
    let mut steps: BTreeMap<i64, Vec<(usize, f64)>> = BTreeMap::new();
    for (device, curve) in curves.iter().enumerate() {
        for point in *curve {
            let values = steps.entry(point.at).or_default();
            values.push((device, point.value));
        }
    }
    let mut counts = vec![StepCounts::default(); curves.len()];
    for values in steps.values().filter(|values| values.len() >= 3) {
        let Some(center) = median(values.iter().map(|(_, value)| *value).collect()) else {
            continue;
        };
        let distances = values.iter().map(|(_, value)| (value - center).abs());
        let spread = median(distances.collect()).unwrap_or(0.0) * NORMAL;
        let allowed = (spread * DEVIATIONS).max(center * share).max(least);
        for (device, value) in values {
            let count = &mut counts[*device];
            count.seen += 1;
            count.above += usize::from(*value > center + allowed);
            count.below += usize::from(*value < center - allowed);
        }
    }
    counts
}

/// Returns the devices that differ from the others in one quantity, in the same direction for most
/// of the window.
fn deviations(traces: &[Trace], quantity: Quantity, share: f64, least: f64) -> Vec<Deviation> {
    let curves: Vec<&[Point]> = traces.iter().map(|trace| trace.curve(quantity)).collect();
    let sampled = curves.iter().filter(|curve| curve.len() >= FEWEST).count();
    // Of two devices, either could be the outlier.
    if sampled < 3 {
        return Vec::new();
    }
    let counts = deviating_steps(&curves, share, least);
    let continuous: Vec<usize> = (0..traces.len())
        .filter(|device| counts[*device].is_continuous())
        .collect();
    // If more than a quarter of the devices differ, they are probably on another type of node
    // rather than faulty.
    if continuous.len() * 4 > sampled.max(4) {
        return Vec::new();
    }
    let median_of =
        |device: usize| median(curves[device].iter().map(|point| point.value).collect());
    let peers = median(
        (0..traces.len())
            .filter(|device| !continuous.contains(device))
            .filter_map(median_of)
            .collect(),
    );
    let mut deviations: Vec<Deviation> = continuous
        .into_iter()
        .filter_map(|device| {
            Some(Deviation {
                device,
                quantity,
                value: median_of(device)?,
                peers: peers?,
            })
        })
        .collect();
    let distance = |deviation: &Deviation| {
        ((deviation.value - deviation.peers) / deviation.peers.abs().max(1.0)).abs()
    };
    deviations.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    deviations
}

/// Reason for a reduced clock, from NVML's bit mask. Source: nvml.h, nvmlClocksEventReasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleReason {
    Thermal,
    Power,
    Slowdown,
}

/// Returns the reason that is present in more than half of a device's samples.
pub fn throttled_by(trace: &Trace) -> Option<ThrottleReason> {
    // Software and hardware thermal slowdown; software power cap and hardware power brake; other
    // hardware slowdown.
    const BITS: [(u64, ThrottleReason); 3] = [
        (0x20 | 0x40, ThrottleReason::Thermal),
        (0x04 | 0x80, ThrottleReason::Power),
        (0x08, ThrottleReason::Slowdown),
    ];
    let curve = trace.curve(Quantity::Throttle);
    BITS.into_iter()
        .find(|(bits, _)| {
            let with = curve
                .iter()
                .filter(|point| whole::to_u64(point.value) & bits != 0)
                .count();
            with * 2 > curve.len()
        })
        .map(|(_, reason)| reason)
}

#[cfg(test)]
mod tests;
