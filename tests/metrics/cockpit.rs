//! Tests the cockpit of `gpuctl top` with a Prometheus: numbers, curves, the heat map, and how to
//! get from a node to its job.

use gpuctl_sandbox::{Persona, Tty};

use crate::support::{Scene, cluster};

#[test]
fn top_navigates_from_a_node_to_its_job() {
    let scene = Scene::new("flown", 2);
    let pods = scene.train("spin", 2, 8);
    scene.load(&pods[0], |_, gpu| gpu.utilization = 20.0);
    scene.load(&pods[1], |index, gpu| {
        gpu.utilization = if index == 0 { 0.0 } else { 96.0 }
    });
    scene.until(&scene.nodes(), |list| {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|node| node["gpuUtilization"] == 84.0)
    });
    let kubeconfig = cluster().kubeconfig(Persona::Admin).display().to_string();
    let line = format!("\"$GPUCTL\" --prometheus {} -n flown top", scene.prometheus);
    let mut tty = Tty::start(
        &line,
        (110, 30),
        &[
            ("KUBECONFIG", &kubeconfig),
            ("GPUCTL", env!("CARGO_BIN_EXE_gpuctl")),
        ],
    );
    // (8 × 20 + 7 × 96 + 0) ÷ 16 = 52.
    let jobs = tty.until("the job", |text| {
        text.contains("flown/spin") && text.contains("52%")
    });
    assert!(
        jobs.contains("Job") && jobs.contains("a100-80g") && jobs.contains(" 16 "),
        "{jobs}"
    );
    // The curve from the history in Prometheus appears after the first numbers.
    tty.until("a curve", |text| {
        text.lines()
            .any(|line| line.contains("flown/spin") && line.contains(['▄', '▅']))
    });
    tty.press("2/flown\r");
    // (7 × 96 + 0) ÷ 8 = 84.
    let nodes = tty.until("the nodes", |text| {
        text.contains("84%") && text.contains("20%")
    });
    assert!(
        nodes
            .lines()
            .any(|line| line.starts_with(">flown-") && line.contains("84%")),
        "{nodes}"
    );
    tty.press("\r");
    let gpus = tty.until("the map", |text| {
        text.contains("▁███████") && text.contains("TEMP")
    });
    assert!(
        gpus.contains("gpu-0") && gpus.contains("flown/spin-"),
        "{gpus}"
    );
    tty.press("\r");
    let job = tty.sees("› flown/Job/spin");
    assert!(job.contains(">flown/spin"), "{job}");
    tty.press("d");
    let described = tty.until("a description", |text| {
        text.contains("$ gpuctl describe workload") && text.contains("done")
    });
    assert!(
        described.contains("spin") && described.contains("flown"),
        "{described}"
    );
    // A changed load appears without a key press.
    tty.press("qqq1");
    scene.load(&pods[0], |_, gpu| gpu.utilization = 96.0);
    // (8 × 96 + 7 × 96 + 0) ÷ 16 = 90.
    tty.until("the new load", |text| {
        text.contains("flown/spin") && text.contains("90%")
    });
}
