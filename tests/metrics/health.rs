//! Tests `get health` and the metrics checks of `doctor` with a real Prometheus.

use std::time::Duration;

use gpuctl_sandbox::eventually;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::{Value, json};

use crate::support::{A100, GPU, Scene};

#[test]
fn health_reports_suspicious_devices_and_doctor_nodes_without_metrics() {
    let scene = Scene::new("unwell", 2);
    // The devices of the third node are not exported.
    scene.cluster.add_nodes(&[in_pool(
        node("unwell-dark", Some(A100), &[(GPU, 8)]),
        "unwell",
    )]);
    scene.exporter.change(|fleet| {
        for gpu in &mut fleet.gpus {
            (gpu.utilization, gpu.celsius) = (0.0, 40.0);
            // Exporters without a power meter export NaN.
            gpu.watts = if gpu.node == "unwell-1" {
                f64::NAN
            } else {
                gpu.watts
            };
            match (gpu.node.as_str(), gpu.index) {
                ("unwell-0", 3) => gpu.utilization = 80.0,
                ("unwell-1", 5) => gpu.celsius = 94.0,
                ("unwell-1", 6) => gpu.xid = 79,
                _ => {}
            }
        }
    });
    let findings = |answer: &Value| -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let items = answer["items"].as_array().unwrap();
        let rows = items
            .iter()
            .filter(|row| row["nodeName"].as_str().unwrap().starts_with("unwell"));
        rows.map(|row| {
            (
                text(&row["severity"]),
                match row["device"].as_str() {
                    Some(device) => format!("{}/{device}", text(&row["nodeName"])),
                    None => text(&row["nodeName"]),
                },
                text(&row["finding"]),
            )
        })
        .collect()
    };
    let expected = [
        ("fail", "unwell-1/gpu-6", "fault"),
        ("warn", "unwell-0/gpu-3", "used-without-pod"),
        ("warn", "unwell-1/gpu-5", "hot"),
        ("warn", "unwell-dark", "silent"),
    ];
    let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
    eventually(
        "the findings are as expected",
        Duration::from_secs(60),
        || {
            let answer = scene.gpuctl(&["get", "health", "-o", "json"]).ok().json();
            (findings(&answer) == expected).then_some(()).ok_or(answer)
        },
    );
    assert!(scene.gpuctl(&["get", "health"]).ok().out.contains("94 °C"));
    // Without Prometheus, the state of the devices is unknown.
    let nodes_only = scene
        .gpuctl_at("http://127.0.0.1:1", &["get", "health", "-o", "json"], "")
        .exits(6)
        .says("so only nodes were checked");
    let answer = nodes_only.json();
    assert_eq!(answer["coverage"], Value::Null, "{answer:#}");
    assert!(findings(&answer).is_empty(), "{answer:#}");
    let report = scene.gpuctl(&["doctor", "-o", "json"]).exits(13).json();
    let checks = report["checks"].as_array().unwrap();
    let dark = checks
        .iter()
        .find(|row| row["node"] == "unwell-dark")
        .unwrap_or_else(|| panic!("{report:#}"));
    assert!(
        dark["message"]
            .as_str()
            .unwrap()
            .contains("its GPUs have no metrics"),
        "{dark}"
    );
    let is_fault = |row: &Value| {
        (&row["check"], &row["node"], &row["status"])
            == (&json!("node-health"), &json!("unwell-1"), &json!("fail"))
    };
    assert!(checks.iter().any(is_fault), "{report:#}");
    assert!(
        checks.iter().all(|row| row["node"] != "unwell-0"),
        "{report:#}"
    );
    assert!(
        checks.iter().any(|row| row["check"] == "scrapes"),
        "{report:#}"
    );
    let messages = |check: &str| -> Vec<&str> {
        checks
            .iter()
            .filter(|row| row["check"] == check)
            .map(|row| row["message"].as_str().unwrap())
            .collect()
    };
    assert_eq!(
        messages("metrics"),
        ["power: missing on 1 of 2 nodes (unwell-1)"],
        "{report:#}"
    );
    assert_eq!(
        messages("retention"),
        ["samples are retained for 15d"],
        "{report:#}"
    );
    assert_eq!(
        messages("autoscaling"),
        ["the cluster serves no pod metrics, so services cannot scale by GPU use"],
        "{report:#}"
    );
    assert!(
        messages("clock").is_empty(),
        "both clocks are of this machine"
    );
}
