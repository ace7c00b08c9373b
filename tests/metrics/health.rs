//! `get health` and the metrics part of `doctor`, from what a real Prometheus scraped.

use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::Value;

use crate::support::{A100, GPU, Scene};

#[test]
fn devices_that_contradict_healthy_and_nodes_without_metrics_are_named() {
    let scene = Scene::new("unwell", 2);
    // Nothing exports the devices of the third node.
    scene.cluster.add_nodes(&[in_pool(
        node("unwell-dark", Some(A100), &[(GPU, 8)]),
        "unwell",
    )]);
    scene.exporter.change(|fleet| {
        for gpu in &mut fleet.gpus {
            (gpu.utilization, gpu.celsius) = (0.0, 40.0);
            // What an exporter that has no power meter says.
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
    let end = Instant::now() + Duration::from_secs(60);
    let own = |answer: &Value| -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let items = answer["items"].as_array().unwrap();
        let mine = items
            .iter()
            .filter(|one| one["nodeName"].as_str().unwrap().starts_with("unwell"));
        mine.map(|one| {
            (
                text(&one["severity"]),
                format!("{}/{}", text(&one["nodeName"]), text(&one["device"])),
                text(&one["finding"]),
            )
        })
        .collect()
    };
    let expected = [
        ("fail", "unwell-1/gpu-6", "fault"),
        ("warn", "unwell-0/gpu-3", "used-without-pod"),
        ("warn", "unwell-1/gpu-5", "hot"),
    ];
    let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
    loop {
        let answer = scene.gpuctl(&["get", "health", "-o", "json"]).ok().json();
        if own(&answer) == expected {
            break;
        }
        assert!(Instant::now() < end, "{answer:#}");
        thread::sleep(Duration::from_secs(2));
    }
    assert!(scene.gpuctl(&["get", "health"]).ok().out.contains("94 °C"));
    scene
        .gpuctl_at("http://127.0.0.1:1", &["get", "health", "-o", "json"], "")
        .exits(6);
    let report = scene.gpuctl(&["doctor", "-o", "json"]).ok().json();
    let checks = report["checks"].as_array().unwrap();
    let dark = checks
        .iter()
        .find(|one| one["node"] == "unwell-dark")
        .unwrap_or_else(|| panic!("{report:#}"));
    assert!(
        dark["message"]
            .as_str()
            .unwrap()
            .contains("its GPUs have no metrics"),
        "{dark}"
    );
    assert!(
        checks.iter().all(|one| one["node"] != "unwell-0"),
        "{report:#}"
    );
    assert!(
        checks.iter().any(|one| one["check"] == "scrapes"),
        "{report:#}"
    );
    let told = |check: &str| -> Vec<&str> {
        checks
            .iter()
            .filter(|one| one["check"] == check)
            .map(|one| one["message"].as_str().unwrap())
            .collect()
    };
    assert_eq!(
        told("metrics"),
        ["power: 1 of 2 nodes have none (unwell-1)"],
        "{report:#}"
    );
    assert_eq!(
        told("retention"),
        ["samples are retained for 15d"],
        "{report:#}"
    );
    assert_eq!(
        told("autoscaling"),
        ["the cluster serves no pod metrics, so services cannot scale by GPU use"],
        "{report:#}"
    );
    assert!(told("clock").is_empty(), "both are on this machine");
}
