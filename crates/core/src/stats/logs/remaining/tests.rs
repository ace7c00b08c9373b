//! Tests the estimate of the remaining time against independent calculations.

use proptest::prelude::*;

use super::*;
use crate::model::values::whole;

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_millisecond(whole::to_i64((seconds * 1000.0).round())).unwrap()
}

fn point(seconds: f64, done: f64) -> ProgressPoint {
    ProgressPoint {
        at: at(seconds),
        done,
        resolution: 0.01,
    }
}

const REPEATED: CurrentRun = CurrentRun {
    started_at: None,
    is_repeated: true,
};

fn first_run() -> CurrentRun {
    CurrentRun {
        started_at: Some(at(0.0)),
        is_repeated: false,
    }
}

#[test]
fn a_regular_log_is_extrapolated() {
    // 1 % per 30 s from 40 % to 49 %, so 51 % take 1530 s. 10 s of the current step have passed.
    let points: Vec<_> = (0..10)
        .map(|step| point(f64::from(step) * 30.0, 0.4 + f64::from(step) * 0.01))
        .collect();
    let estimate = remaining(&points, REPEATED, at(280.0)).unwrap();
    assert!((estimate.seconds - 1520.0).abs() < 0.01, "{estimate:?}");
    // 1530 × 0.05 × (1 + log2(1 + 1530/270)) = 285.8
    let half = (estimate.high - estimate.low) / 2.0;
    assert!((half - 285.8).abs() < 0.5, "{half}");
}

#[test]
fn scatter_of_the_steps_widens_the_interval() {
    // Steps of 20, 40, 20, 40, 20, 40 s for 1 % each: a mean of 30 s, a variance of 6 × 100 / 5 =
    // 120, and 64 remaining steps.
    let times = [0.0, 20.0, 60.0, 80.0, 120.0, 140.0, 180.0];
    let points: Vec<_> = (0..7)
        .map(|step| point(times[step], 0.30 + step as f64 * 0.01))
        .collect();
    let estimate = remaining(&points, REPEATED, at(180.0)).unwrap();
    assert!((estimate.seconds - 1920.0).abs() < 0.01, "{estimate:?}");
    let scatter = 2.0 * (120.0_f64 * (64.0 + 64.0 * 64.0 / 6.0)).sqrt();
    let drift = 1920.0 * 0.05 * (1.0 + (1.0 + 1920.0 / 180.0_f64).log2());
    let half = (estimate.high - estimate.low) / 2.0;
    assert!((half - scatter - drift).abs() < 0.01, "{half}");
}

#[test]
fn a_single_value_is_extrapolated_from_the_start() {
    // 25 % after 1000 s: 3000 s remain at the mean rate.
    let points = [ProgressPoint {
        resolution: 0.0,
        ..point(1000.0, 0.25)
    }];
    let estimate = remaining(&points, first_run(), at(1000.0)).unwrap();
    assert_eq!(
        estimate,
        Remaining {
            seconds: 3000.0,
            low: 1800.0,
            high: 4500.0
        }
    );
    // In the second of four epochs, between 25 % and 50 % are done.
    let epoch = [ProgressPoint {
        resolution: 0.25,
        ..point(1000.0, 0.25)
    }];
    let estimate = remaining(&epoch, first_run(), at(1000.0)).unwrap();
    assert_eq!((estimate.low, estimate.high), (600.0, 4500.0));
}

#[test]
fn a_restart_resets_the_rate() {
    let fast = (0..5).map(|step| point(f64::from(step), 0.5 + f64::from(step) * 0.1));
    let slow = |count: i32| {
        (0..count).map(|step| point(100.0 + f64::from(step) * 60.0, 0.4 + 0.01 * f64::from(step)))
    };
    let points: Vec<_> = fast.clone().chain(slow(5)).collect();
    let estimate = remaining(&points, first_run(), at(340.0)).unwrap();
    assert!(
        (estimate.seconds - 56.0 * 60.0).abs() < 0.01,
        "{estimate:?}"
    );
    // There are too few values since the restart, and the mean since the start would mix both runs.
    let points: Vec<_> = fast.chain(slow(3)).collect();
    assert_eq!(remaining(&points, first_run(), at(220.0)), None);
}

#[test]
fn without_a_rate_there_is_no_estimate() {
    let line = [point(1000.0, 0.5)];
    let now = at(1000.0);
    assert_eq!(remaining(&[], first_run(), now), None);
    assert_eq!(
        remaining(&line, REPEATED, now),
        None,
        "one value, restarted"
    );
    assert_eq!(
        remaining(&line, CurrentRun::default(), now),
        None,
        "no start"
    );
    for done in [0.0, 1.0] {
        assert_eq!(remaining(&[point(1000.0, done)], first_run(), now), None);
    }
    assert_eq!(
        remaining(&[point(30.0, 0.5)], first_run(), at(30.0)),
        None,
        "a short run"
    );
    assert_eq!(
        remaining(&line, first_run(), at(1700.0)),
        None,
        "no line for 700 s"
    );
    let creeping: Vec<_> = (0..10)
        .map(|step| point(f64::from(step) * 600.0, 1e-6 * f64::from(step + 1)))
        .collect();
    assert_eq!(remaining(&creeping, REPEATED, at(5400.0)), None);
}

#[test]
fn a_checkpoint_of_an_earlier_job_does_not_shorten_the_estimate() {
    // 90 % after 200 s, but now 60 s per percent.
    let points: Vec<_> = (0..5)
        .map(|step| {
            point(
                200.0 + f64::from(step) * 60.0,
                0.90 + 0.01 * f64::from(step),
            )
        })
        .collect();
    let estimate = remaining(&points, first_run(), at(440.0)).unwrap();
    assert!((estimate.seconds - 360.0).abs() < 0.01, "{estimate:?}");
}

proptest! {
    #[test]
    fn the_interval_contains_the_estimate(
        steps in prop::collection::vec((0.0_f64..500.0, 0.0_f64..0.05), 1..40),
        start in 0.0_f64..10_000.0,
        gap in 0.0_f64..900.0,
        is_repeated: bool,
    ) {
        let (mut time, mut done) = (start, 0.0);
        let points: Vec<_> = steps
            .iter()
            .map(|(seconds, share)| {
                time += seconds;
                done += share;
                point(time, done)
            })
            .collect();
        let run = CurrentRun { started_at: Some(at(0.0)), is_repeated };
        if let Some(estimate) = remaining(&points, run, at(time + gap)) {
            prop_assert!(0.0 <= estimate.low, "{estimate:?}");
            prop_assert!(estimate.low <= estimate.seconds, "{estimate:?}");
            prop_assert!(estimate.seconds <= estimate.high, "{estimate:?}");
            prop_assert!(estimate.high <= MAX_SECONDS, "{estimate:?}");
        }
    }

    #[test]
    fn noise_widens_the_interval(noise in 1.0_f64..14.0, more in 0.1_f64..1.0) {
        let width = |noise: f64| {
            let points: Vec<_> = (0..9)
                .map(|step| {
                    // The first and the last line keep their times, and so the rate.
                    let sign = f64::from(step % 2);
                    point(f64::from(step) * 30.0 + sign * noise, 0.2 + 0.01 * f64::from(step))
                })
                .collect();
            remaining(&points, REPEATED, at(240.0)).unwrap().width()
        };
        prop_assert!(width(0.0) < width(noise));
        prop_assert!(width(noise) < width(noise + more));
    }
}
