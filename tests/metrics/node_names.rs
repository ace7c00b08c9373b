//! Exporters write the names of nodes in other forms than Kubernetes. gpuctl matches them, or names
//! the labels that match no node.

use std::time::Duration;

use gpuctl_sandbox::eventually;
use serde_json::Value;

use crate::support::Scene;

/// Writes a node's name as an exporter does.
type NameForm = fn(&str) -> String;

/// Renames the nodes in the exporter's labels, and sets the load of all held devices.
fn rename(scene: &Scene, percent: f64, name: impl Fn(&str) -> String) {
    scene.exporter.change(|fleet| {
        for gpu in &mut fleet.gpus {
            let node = gpu.uuid.trim_start_matches("GPU-");
            let node = node.rsplit_once('-').map_or(node, |(node, _)| node);
            gpu.node = name(node);
            if !gpu.pods.is_empty() {
                gpu.utilization = percent;
            }
        }
    });
}

#[test]
fn nodes_match_in_every_form_and_doctor_names_labels_without_a_node() {
    let scene = Scene::new("forms", 2);
    scene.train("busy", 1, 2);
    // Both devices of the only job have the same load, so the mean of its node is that load.
    let has_load = |answer: &Value, percent: f64| {
        let nodes = answer["items"].as_array().unwrap();
        let loads = nodes
            .iter()
            .filter_map(|node| node["gpuUtilization"].as_f64());
        let is_equal = |load: f64| {
            [percent, percent / 100.0]
                .iter()
                .any(|it| (load - it).abs() < 0.001)
        };
        loads.map(is_equal).eq([true])
    };
    let forms: [(f64, NameForm); 3] = [
        (61.0, str::to_owned),
        (62.0, str::to_uppercase),
        (63.0, |node| format!("{node}.gpu.example.com")),
    ];
    for (percent, form) in forms {
        rename(&scene, percent, form);
        scene.until(&scene.nodes(), |answer| has_load(answer, percent));
    }
    rename(&scene, 64.0, |_| "elsewhere-9".to_owned());
    let label = "series with Hostname=\"elsewhere-9\" match no node";
    eventually(
        "the list names the label that matches no node",
        Duration::from_secs(40),
        || {
            let run = scene.gpuctl(&scene.nodes()).ok();
            match run.err.contains(label) {
                true => Ok(()),
                false => Err(run.err),
            }
        },
    );
    let doctor = scene.gpuctl(&["doctor", "-o", "json"]).out;
    let doctor: Value = serde_json::from_str(&doctor).unwrap();
    let checks = doctor["checks"].as_array().unwrap();
    let of_node: Vec<&str> = checks
        .iter()
        .filter(|check| check["node"] == "forms-0" && check["check"] == "gpu-stack")
        .map(|check| check["message"].as_str().unwrap())
        .collect();
    assert_eq!(of_node.len(), 1, "{doctor:#}");
    // If another test runs exporter pods, the first fault is that this node has none.
    let has_no_exporter = of_node[0].contains("other nodes have one");
    assert!(of_node[0].contains(label) || has_no_exporter, "{of_node:?}");
}
