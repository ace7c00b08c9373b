//! Tests the comparison of a job's devices.

use std::collections::BTreeMap;

use super::*;
use crate::model::Point;

/// Deterministic noise from xorshift64 (Marsaglia 2003).
struct Random(u64);

impl Random {
    /// Returns a number from -1 to 1.
    fn noise(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    fn below(&mut self, many: usize) -> usize {
        whole::to_usize(f64::midpoint(self.noise(), 1.0) * many as f64) % many
    }
}

const END: i64 = 600_000;

/// Load on one device of a busy job over ten minutes.
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
    Trace::from_curves(
        &format!("n-{}", index / 8),
        index % 8,
        "NVIDIA H100 80GB HBM3",
        curves,
    )
}

/// One of 64 noisy devices is bad. Measures how often the bad device is found, and how often a
/// healthy one is reported.
#[test]
fn deviating_device_among_64_is_found() {
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
        let deviating: Vec<usize> = compare(&traces, END)
            .deviations
            .iter()
            .map(|deviation| deviation.device)
            .collect();
        // Every fifth job has no bad device.
        bad_ones += usize::from(kind != 4);
        right += usize::from(kind != 4 && deviating.contains(&bad));
        wrong += deviating
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
fn waiting_ranks_spin_and_the_blocking_rank_does_not() {
    let mut random = Random(7);
    let waits = Load {
        utilization: 100.0,
        watts: 120.0,
        clock: 1980.0,
        tensor: 0.0,
    };
    let idle = Load {
        utilization: 0.0,
        watts: 70.0,
        clock: 345.0,
        tensor: 0.0,
    };
    let traces: Vec<Trace> = (0..64)
        .map(|index| device(index, if index == 37 { idle } else { waits }, &mut random))
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
    // Half of the devices cannot be outliers, and neither can one of two.
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
fn silent_nodes_differ_from_a_silent_store() {
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
fn most_frequent_throttle_reason_wins() {
    let points = |bits: &[f64]| {
        bits.iter()
            .zip(1..)
            .map(|(value, at)| Point { at, value: *value })
            .collect::<Vec<_>>()
    };
    let trace = |bits: &[f64]| {
        Trace::from_curves(
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
