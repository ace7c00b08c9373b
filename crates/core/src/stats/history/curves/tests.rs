//! Tests how the curves of a window are built.

use super::*;

fn series(labels: &[(&str, &str)], values: &[f64]) -> Series {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let points = values
        .iter()
        .zip(0..)
        .map(|(value, index)| Point {
            at: index * 60_000,
            value: *value,
        })
        .collect();
    Series { labels, points }
}

fn util<'a>(gpu: &'a str, pod: &'a str) -> [(&'a str, &'a str); 5] {
    [
        ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
        ("gpu", gpu),
        ("Hostname", "n"),
        ("namespace", "ns"),
        ("pod", pod),
    ]
}

fn values(curve: &[Point]) -> Vec<f64> {
    curve.iter().map(|point| point.value).collect()
}

#[test]
fn curve_of_an_instance_ignores_zeros_and_power_of_its_board() {
    let labels = |name: &'static str| {
        [
            ("__name__", name),
            ("gpu", "0"),
            ("Hostname", "n"),
            ("GPU_I_PROFILE", "1g.10gb"),
            ("GPU_I_ID", "3"),
        ]
    };
    let answer = [
        series(&labels("DCGM_FI_DEV_GPU_UTIL"), &[0.0, 0.0, 0.0]),
        series(
            &labels("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
            &[0.5, f64::NAN, 0.75],
        ),
        series(&labels("DCGM_FI_DEV_MEM_COPY_UTIL"), &[0.0, 0.0, 0.0]),
        series(&labels("DCGM_FI_DEV_POWER_USAGE"), &[350.0, 350.0, 350.0]),
    ];
    let history = read(&answer, &ApiFacts::default(), &Lifetimes::new());
    let trace = &history.traces[0];
    assert_eq!(values(trace.curve(Quantity::Utilization)), [50.0, 75.0]);
    assert!(trace.curve(Quantity::MemoryCopy).is_empty());
    assert!(trace.curve(Quantity::Power).is_empty());
}

#[test]
fn each_device_has_one_curve_and_garbage_is_a_gap() {
    let answer = [
        series(&util("0", "a"), &[90.0, f64::NAN, 70.0]),
        series(&util("0", "a"), &[90.0]),
        series(&util("1", "a"), &[10.0]),
    ];
    let history = read(&answer, &ApiFacts::default(), &Lifetimes::new());
    assert_eq!((history.traces.len(), history.dropped), (2, 1));
    assert_eq!(
        values(history.traces[0].curve(Quantity::Utilization)),
        [90.0, 70.0]
    );
    // (90 + 10) / 2, and then only 70
    let means = mean(
        history
            .traces
            .iter()
            .map(|trace| trace.curve(Quantity::Utilization)),
    );
    assert_eq!(
        means
            .iter()
            .map(|point| (point.at, point.value))
            .collect::<Vec<_>>(),
        [(0, 50.0), (120_000, 70.0)]
    );
}

#[test]
fn samples_after_a_pods_end_belong_to_another() {
    let lifetimes = Lifetimes::from([(
        ("ns".to_owned(), "a".to_owned()),
        (Some(60_000), Some(120_000)),
    )]);
    let history = read(
        &[series(&util("0", "a"), &[1.0, 2.0, 3.0, 4.0])],
        &ApiFacts::default(),
        &lifetimes,
    );
    assert_eq!(
        values(history.traces[0].curve(Quantity::Utilization)),
        [2.0, 3.0]
    );
}

#[test]
fn earlier_points_can_be_cut_off() {
    let history = read(
        &[series(&util("0", "a"), &[1.0, 2.0, 3.0])],
        &ApiFacts::default(),
        &Lifetimes::new(),
    );
    assert_eq!(
        values(history.traces[0].since(60_000).curve(Quantity::Utilization)),
        [2.0, 3.0]
    );
}

#[test]
fn unused_devices_are_reported_but_unknown_ones_are_not() {
    let message = |curves: &[&[f64]]| {
        let answer: Vec<Series> = curves
            .iter()
            .zip(["0", "1", "2"])
            .map(|(values, gpu)| series(&util(gpu, "a"), values))
            .collect();
        unused(&read(&answer, &ApiFacts::default(), &Lifetimes::new()), 4)
    };
    assert_eq!(
        message(&[&[0.0, 0.0, 1.0, 0.0]]).as_deref(),
        Some("its GPU was idle in every sample of this period")
    );
    assert_eq!(
        message(&[&[0.0; 4], &[0.0, 0.0, 60.0, 0.0]]).as_deref(),
        Some("1 of its 2 sampled GPUs was idle in every sample of this period")
    );
    assert_eq!(message(&[&[0.0]]), None, "one sample of four is too little");
    assert_eq!(message(&[&[5.0; 4]]), None);
}

#[test]
fn memory_share_excludes_reserved_memory() {
    let memory = |name: &'static str, value| {
        series(
            &[("__name__", name), ("gpu", "0"), ("Hostname", "n")],
            &[value],
        )
    };
    let answer = [
        memory("DCGM_FI_DEV_FB_USED", 300.0),
        memory("DCGM_FI_DEV_FB_FREE", 100.0),
    ];
    let history = read(&answer, &ApiFacts::default(), &Lifetimes::new());
    assert_eq!(values(&history.traces[0].memory_share()), [75.0]);
}

#[test]
fn zeros_of_later_partitions_are_ignored() {
    let series = |partition: &str, name: &str, value: f64| Series {
        labels: [
            ("__name__", name),
            ("gpu_id", "0"),
            ("hostname", "n"),
            ("gpu_compute_partition_type", "cpx"),
            ("gpu_memory_partition_type", "nps4"),
            ("gpu_partition_id", partition),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into_iter()
        .collect(),
        points: vec![Point { at: 0, value }],
    };
    let answer = [
        series("0", "gpu_gfx_activity", 90.0),
        series("3", "gpu_gfx_activity", 0.0),
        series("3", "gpu_package_power", 0.0),
        series("3", "gpu_used_vram", 2000.0),
    ];
    let history = read(&answer, &ApiFacts::default(), &Lifetimes::new());
    let labels = |number: u32| {
        history
            .traces
            .iter()
            .find(|trace| trace.slice == Some(("cpx_nps4".to_owned(), number)))
            .unwrap()
    };
    assert_eq!(labels(0).curve(Quantity::Utilization).len(), 1);
    assert!(
        labels(3).curve(Quantity::Utilization).is_empty()
            && labels(3).curve(Quantity::Power).is_empty()
    );
    assert_eq!(labels(3).curve(Quantity::MemoryUsed)[0].value, 2000.0);
}
