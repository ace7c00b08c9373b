//! Tests how GPU-hours are summed.

use super::*;

fn works(devices: &[(f64, f64, f64)]) -> Works {
    let device = |(index, (utilization, memory, watts)): (usize, &(f64, f64, f64))| {
        let work = DeviceWork {
            sum: utilization * 100.0,
            seconds: 100.0,
            memory_peak: Some(Mebibytes(*memory)),
            memory_total: Some(Mebibytes(80_000.0)),
            model: None,
            watts: *watts,
            watt_samples: 1.0,
            shared: false,
        };
        (
            (
                "n".to_owned(),
                DeviceId::whole(u32::try_from(index).unwrap()),
            ),
            work,
        )
    };
    devices.iter().enumerate().map(device).collect()
}

#[test]
fn advice_requires_measurements() {
    let spread = |devices: usize| Spread {
        most: devices as u64,
        pods: 1,
    };
    let advised = |devices: &[(f64, f64, f64)]| {
        advice(
            &works(devices),
            spread(devices.len()),
            Some(Watts(400.0)),
            None,
        )
    };
    assert_eq!(
        advised(&[(90.0, 60_000.0, 350.0), (88.0, 60_000.0, 350.0)]),
        []
    );
    assert_eq!(
        advised(&[(90.0, 60_000.0, 350.0), (1.0, 500.0, 60.0)]),
        [Advice::FewerGpus {
            idle: 1,
            all: 2,
            alone: true
        }]
    );
    assert_eq!(
        advised(&[(12.0, 6000.0, 100.0)]),
        [Advice::Slice {
            memory_peak: Mebibytes(6000.0)
        }]
    );
    let straggling = advised(&[
        (95.0, 1.0, 350.0),
        (94.0, 1.0, 350.0),
        (40.0, 1.0, 200.0),
        (96.0, 1.0, 350.0),
    ]);
    assert_eq!(
        straggling,
        [Advice::Straggler {
            device: "n/gpu-2".to_owned(),
            power: Watts(200.0),
            others: Watts(350.0)
        }]
    );
    // Ranks that wait for a working rank spin at full utilization.
    let slow = advised(&[(100.0, 1.0, 350.0), (100.0, 1.0, 350.0), (95.0, 1.0, 355.0)]);
    assert_eq!(slow, [], "a lower utilization is not a fault");
    assert_eq!(
        advised(&[(100.0, 60_000.0, 90.0)]),
        [Advice::Stuck {
            devices: 1,
            power: Watts(90.0)
        }]
    );
    assert_eq!(
        advice(&works(&[(100.0, 60_000.0, 90.0)]), spread(1), None, None),
        [],
        "an unknown model has no power limit"
    );
    let mut half = works(&[(90.0, 1.0, 1.0), (1.0, 1.0, 1.0)]);
    half.values_mut().last().unwrap().seconds = 0.0;
    assert_eq!(
        advice(&half, spread(2), None, None),
        [],
        "an unmeasured device is not idle"
    );
    assert_eq!(advice(&Works::new(), spread(0), None, None), []);
    let moved = works(&[(90.0, 60_000.0, 350.0), (1.0, 500.0, 60.0)]);
    assert_eq!(
        advice(&moved, spread(1), None, None),
        [],
        "it had one at a time"
    );
}
