//! Compares the devices of one job with each other: what all of them do says whether it hangs, and
//! one that differs from its peers for most of the window is the slow one, or the one that the
//! others wait for. A lower utilization alone says nothing: who waits spins at 100 %.
//!
//! The method follows Minder (arXiv 2411.01791): peers of one job, a distance by the median, and
//! continuity over the window.

use crate::model::Watts;
use crate::stats::exporters::dialect::Quantity;
use crate::stats::exporters::limits;
use crate::stats::history::curves::Trace;

/// What is read of each device.
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

/// Milliseconds at the end of the window that tell what a job does now.
const RECENT: i64 = 120_000;
/// Samples without which nothing is said.
const FEWEST: usize = 4;
/// Share of the samples in which a device must differ.
const CONTINUOUS: f64 = 0.8;
/// Median absolute deviations that a difference is at least; 1.4826 of them are a standard
/// deviation of normal noise.
const DEVIATIONS: f64 = 4.0;
const NORMAL: f64 = 1.4826;
/// Share of its limit below which a device at full utilization waits: spinning kernels draw little.
const WAITING_POWER: f64 = 0.35;

/// A quantity in which one device differs, with the least difference that counts: a share of the
/// median, and units beside it.
const COMPARED: [(Quantity, f64, f64); 4] = [
    (Quantity::Clock, 0.05, 30.0),
    (Quantity::TensorActive, 0.25, 5.0),
    (Quantity::SmActive, 0.25, 10.0),
    (Quantity::Power, 0.2, 30.0),
];

/// A device that differs from its peers.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Its place in the list of devices.
    pub device: usize,
    pub quantity: Quantity,
    /// Medians over the window.
    pub value: f64,
    pub peers: f64,
}

/// What the devices of a job do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerReport {
    /// Devices with enough samples.
    pub sampled: usize,
    /// Devices at full utilization with little power: they wait for others.
    pub spinning: Vec<usize>,
    /// Devices that do nothing.
    pub idle: Vec<usize>,
    /// Mean power of those that spin, in watts.
    pub spinning_watts: Option<f64>,
    /// Those that differ, the farthest first.
    pub deviations: Vec<Deviation>,
    /// Nodes whose devices have no sample in the last part of the window while others have.
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
        for found in deviations(traces, quantity, share, least) {
            // The first of these quantities explains the others: a low clock draws less power.
            if report
                .deviations
                .iter()
                .all(|known| known.device != found.device)
            {
                report.deviations.push(found);
            }
        }
    }
    report
}

/// Returns the nodes of which nothing was heard lately.
fn silent(traces: &[Trace], now: &[Trace]) -> Vec<String> {
    let heard = |trace: &Trace| {
        !trace.curve(Quantity::Utilization).is_empty() || !trace.curve(Quantity::Power).is_empty()
    };
    let mut silent: Vec<String> = traces
        .iter()
        .zip(now)
        .filter(|(before, now)| heard(before) && !heard(now))
        .map(|(before, _)| before.node.clone())
        .filter(|node| {
            !traces
                .iter()
                .zip(now)
                .any(|(before, now)| before.node == *node && heard(now))
        })
        .collect();
    silent.sort();
    silent.dedup();
    // When nothing was heard of any node, it is the store that has gone quiet.
    if now.iter().any(heard) {
        silent
    } else {
        Vec::new()
    }
}

/// Returns the median of a curve with enough samples.
fn middle(trace: &Trace, quantity: Quantity) -> Option<f64> {
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

/// Returns the devices that differ from the others in one quantity, in the same direction for most
/// of the window.
fn deviations(traces: &[Trace], quantity: Quantity, share: f64, least: f64) -> Vec<Deviation> {
    let curves: Vec<&[crate::model::Point]> =
        traces.iter().map(|trace| trace.curve(quantity)).collect();
    let sampled = curves.iter().filter(|curve| curve.len() >= FEWEST).count();
    // Of two that differ nobody knows which is the odd one.
    if sampled < 3 {
        return Vec::new();
    }
    let mut steps: std::collections::BTreeMap<i64, Vec<(usize, f64)>> =
        std::collections::BTreeMap::new();
    for (device, curve) in curves.iter().enumerate() {
        curve.iter().for_each(|point| {
            steps
                .entry(point.at)
                .or_default()
                .push((device, point.value));
        });
    }
    let (mut above, mut below, mut seen) = (
        vec![0_usize; traces.len()],
        vec![0_usize; traces.len()],
        vec![0_usize; traces.len()],
    );
    for values in steps.values().filter(|values| values.len() >= 3) {
        let Some(center) = median(values.iter().map(|(_, value)| *value).collect()) else {
            continue;
        };
        let spread = median(
            values
                .iter()
                .map(|(_, value)| (value - center).abs())
                .collect(),
        )
        .unwrap_or(0.0)
            * NORMAL;
        let allowed = (spread * DEVIATIONS).max(center * share).max(least);
        for (device, value) in values {
            seen[*device] += 1;
            above[*device] += usize::from(*value > center + allowed);
            below[*device] += usize::from(*value < center - allowed);
        }
    }
    let continuous = |device: usize| {
        let most = above[device].max(below[device]);
        seen[device] >= FEWEST && most as f64 >= seen[device] as f64 * CONTINUOUS
    };
    let odd: Vec<usize> = (0..traces.len())
        .filter(|device| continuous(*device))
        .collect();
    // Many that differ are another kind of node and no fault.
    if odd.len() * 4 > sampled.max(4) {
        return Vec::new();
    }
    let of = |device: usize| median(curves[device].iter().map(|point| point.value).collect());
    let peers = median(
        (0..traces.len())
            .filter(|device| !odd.contains(device))
            .filter_map(of)
            .collect(),
    );
    let mut found: Vec<Deviation> = odd
        .into_iter()
        .filter_map(|device| {
            Some(Deviation {
                device,
                quantity,
                value: of(device)?,
                peers: peers?,
            })
        })
        .collect();
    let distance = |one: &Deviation| ((one.value - one.peers) / one.peers.abs().max(1.0)).abs();
    found.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    found
}

/// What lowers a clock, by the bits that NVML reports. Source: nvml.h, nvmlClocksEventReasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleReason {
    Thermal,
    Power,
    Slowdown,
}

/// Returns the reason that most samples of a device tell.
pub fn throttled_by(trace: &Trace) -> Option<ThrottleReason> {
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
                .filter(|point| point.value as u64 & bits != 0)
                .count();
            with * 2 > curve.len()
        })
        .map(|(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::Point;

    /// The same numbers in every run; xorshift64 (Marsaglia 2003).
    struct Random(u64);

    impl Random {
        /// From -1 to 1.
        fn noise(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        }

        fn below(&mut self, many: usize) -> usize {
            (f64::midpoint(self.noise(), 1.0) * many as f64) as usize % many
        }
    }

    const END: i64 = 600_000;

    /// What one device of a busy job does, over ten minutes.
    #[derive(Clone, Copy)]
    struct Load {
        utilization: f64,
        watts: f64,
        clock: f64,
        tensor: f64,
    }

    const BUSY: Load = Load {
        utilization: 98.0,
        watts: 620.0,
        clock: 1755.0,
        tensor: 45.0,
    };

    fn device(index: u32, load: Load, random: &mut Random) -> Trace {
        let mut curve = |value: f64, noise: f64| -> Vec<Point> {
            (1..=40)
                .map(|step| Point {
                    at: step * 15_000,
                    value: (value + noise * random.noise()).max(0.0),
                })
                .collect()
        };
        let curves = BTreeMap::from([
            (Quantity::Utilization, curve(load.utilization, 1.5)),
            (Quantity::Power, curve(load.watts, load.watts * 0.06)),
            (Quantity::Clock, curve(load.clock, 15.0)),
            (Quantity::TensorActive, curve(load.tensor, 4.0)),
        ]);
        Trace::made(
            &format!("n-{}", index / 8),
            index % 8,
            "NVIDIA H100 80GB HBM3",
            curves,
        )
    }

    /// 1 bad of 64 with noise on all: how often the right one is named, and how often one is named
    /// that is not bad.
    #[test]
    fn the_bad_one_of_64_is_found() {
        let mut random = Random(0x5eed_0020);
        let (mut right, mut wrong, mut bad_ones) = (0, 0, 0);
        for trial in 0..200 {
            let bad = random.below(64);
            let kind = trial % 5;
            let traces: Vec<Trace> = (0..64)
                .map(|index| {
                    let load = match kind {
                        0 if index == bad => Load {
                            clock: 1390.0,
                            watts: 480.0,
                            ..BUSY
                        },
                        1 if index == bad => Load {
                            clock: 1600.0,
                            ..BUSY
                        },
                        2 if index == bad => Load {
                            tensor: 25.0,
                            watts: 560.0,
                            ..BUSY
                        },
                        3 if index == bad => Load {
                            watts: 400.0,
                            ..BUSY
                        },
                        _ => BUSY,
                    };
                    device(u32::try_from(index).unwrap(), load, &mut random)
                })
                .collect();
            let found: Vec<usize> = compare(&traces, END)
                .deviations
                .iter()
                .map(|one| one.device)
                .collect();
            // Each fifth job is well.
            bad_ones += usize::from(kind != 4);
            right += usize::from(kind != 4 && found.contains(&bad));
            wrong += found
                .iter()
                .filter(|device| kind == 4 || **device != bad)
                .count();
        }
        let (precision, recall) = (
            right as f64 / (right + wrong).max(1) as f64,
            right as f64 / bad_ones as f64,
        );
        assert!(
            precision >= 0.9 && recall >= 0.9,
            "precision {precision}, recall {recall} ({right} right, {wrong} wrong)"
        );
    }

    #[test]
    fn who_waits_spins_and_who_is_waited_for_does_not() {
        let mut random = Random(7);
        let waits = Load {
            utilization: 100.0,
            watts: 120.0,
            clock: 1980.0,
            tensor: 0.0,
        };
        let gone = Load {
            utilization: 0.0,
            watts: 70.0,
            clock: 345.0,
            tensor: 0.0,
        };
        let traces: Vec<Trace> = (0..64)
            .map(|index| device(index, if index == 37 { gone } else { waits }, &mut random))
            .collect();
        let report = compare(&traces, END);
        assert_eq!(
            (
                report.sampled,
                report.spinning.len(),
                report.idle.as_slice()
            ),
            (64, 63, &[37][..])
        );
        assert!((110.0..130.0).contains(&report.spinning_watts.unwrap()));
        // Half of the devices on slower nodes are no outliers, and of two nobody knows.
        let halves: Vec<Trace> = (0..16)
            .map(|index| {
                device(
                    index,
                    if index < 8 {
                        Load {
                            clock: 1400.0,
                            ..BUSY
                        }
                    } else {
                        BUSY
                    },
                    &mut random,
                )
            })
            .collect();
        assert_eq!(compare(&halves, END).deviations, []);
        assert_eq!(compare(&halves[7..9], END).deviations, []);
        assert_eq!(compare(&[], END), PeerReport::default());
    }

    #[test]
    fn a_node_that_falls_silent_is_named_and_a_quiet_store_is_not() {
        let mut random = Random(9);
        let mut traces: Vec<Trace> = (0..16)
            .map(|index| device(index, BUSY, &mut random))
            .collect();
        assert_eq!(compare(&traces, END).silent_nodes, Vec::<String>::new());
        traces[8..]
            .iter_mut()
            .for_each(|trace| *trace = trace.until(300_000));
        assert_eq!(compare(&traces, END).silent_nodes, ["n-1"]);
        traces
            .iter_mut()
            .for_each(|trace| *trace = trace.until(300_000));
        assert_eq!(compare(&traces, END).silent_nodes, Vec::<String>::new());
    }

    #[test]
    fn the_reason_of_most_samples_counts() {
        let points = |bits: &[f64]| {
            bits.iter()
                .zip(1..)
                .map(|(value, at)| Point { at, value: *value })
                .collect::<Vec<_>>()
        };
        let trace = |bits: &[f64]| {
            Trace::made(
                "n",
                0,
                "x",
                BTreeMap::from([(Quantity::Throttle, points(bits))]),
            )
        };
        assert_eq!(
            throttled_by(&trace(&[64.0, 96.0, 0.0])),
            Some(ThrottleReason::Thermal)
        );
        assert_eq!(
            throttled_by(&trace(&[4.0, 4.0, 1.0])),
            Some(ThrottleReason::Power)
        );
        assert_eq!(throttled_by(&trace(&[1.0, 1.0, 8.0])), None);
        assert_eq!(throttled_by(&trace(&[])), None);
    }
}
