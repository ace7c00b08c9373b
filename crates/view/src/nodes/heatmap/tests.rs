//! Tests the axis of heat maps and the order of devices.

use super::*;

fn device(node: &str, index: u32, watts: Option<f64>, limit: Option<f64>, model: &str) -> Reading {
    Reading {
        node: node.into(),
        index,
        power: watts.map(Watts),
        power_limit: limit.map(Watts),
        model: Some(model.into()),
        ..Reading::default()
    }
}

#[test]
fn the_axis_is_that_of_the_devices() {
    let axis = |devices: &[Reading]| HeatmapMetric::Power.axis(devices).1;
    assert_eq!(
        axis(&[device(
            "a",
            0,
            Some(300.0),
            Some(650.0),
            "NVIDIA H100 80GB HBM3"
        )]),
        650,
        "measured before made"
    );
    assert_eq!(
        axis(&[device("a", 0, Some(300.0), None, "NVIDIA H100 80GB HBM3")]),
        700
    );
    assert_eq!(
        axis(&[device("a", 0, Some(310.0), None, "unheard of")]),
        350
    );
}

#[test]
fn the_hottest_come_first_and_unknown_ones_never() {
    let devices = [
        device("a", 0, Some(100.0), None, "x"),
        device("a", 1, None, None, "x"),
        device("b", 0, Some(300.0), None, "x"),
    ];
    let map = document(&devices, Coverage::default(), 5);
    let values: Vec<_> = map
        .power
        .data
        .iter()
        .map(|spot| (spot.node_name.as_str(), spot.value))
        .collect();
    assert_eq!(values, [("b", 300.0), ("a", 100.0)]);
    let text = grid(
        &devices,
        &[],
        HeatmapMetric::Power,
        TextStyle {
            width: None,
            color: false,
            plain: false,
        },
    );
    assert!(text.contains("a     100    -   1 not measured\n"), "{text}");
    assert!(text.ends_with("hottest: b/0 300 W\n"), "{text}");
}
