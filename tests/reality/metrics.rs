//! Tests metrics from an exporter that asks the kubelet which container holds which device.

use gpuctl_sandbox::exporter::Exporter;
use serde_json::json;

use crate::runner::{gpuctl, run};
use crate::support::{Scene, cluster, devices, eventually};

#[test]
fn utilization_is_that_of_the_devices_assigned_by_the_kubelet() {
    let scene = Scene::new("real-metrics");
    scene.train("busy", "sleep 600", "resources: {pool: real, gpu: 2}");
    scene.until("busy", "running", None);
    let holders = cluster().on_real_node(0, |node| node.holders());
    let exporter = Exporter::start().unwrap();
    exporter.change(|fleet| fleet.gpus = devices(&holders, 32));
    let scrapes = json!([{"job_name": "dcgm", "metrics_path": "/metrics/dcgm", "static_configs": [{"targets": [exporter.address()]}]}]);
    let prometheus = cluster()
        .another_prometheus("prometheus-real", &scrapes)
        .unwrap();
    let job_devices: Vec<f64> = holders
        .iter()
        .filter(|(_, holder)| holder.starts_with("real-metrics/"))
        .map(|(id, _)| id.rsplit('-').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(job_devices.len(), 2, "{holders:?}");
    let expected = job_devices.iter().sum::<f64>() / 2.0;
    eventually("the job shows the utilization of its devices", || {
        let mut command = gpuctl();
        command
            .env(
                "KUBECONFIG",
                cluster().kubeconfig(gpuctl_sandbox::Persona::Admin),
            )
            .env("GPUCTL_PROMETHEUS", &prometheus);
        command.args([
            "-n",
            scene.name,
            "get",
            "jobs",
            "--no-progress",
            "-o",
            "json",
        ]);
        let job = run(command, "").ok().json()["items"][0].clone();
        if job["gpuUtilization"]
            .as_f64()
            .is_some_and(|utilization| (utilization - expected).abs() < 0.01)
        {
            Ok(())
        } else {
            Err((expected, job))
        }
    });
    scene.gpuctl(&["delete", "job", "busy", "--force"]).ok();
}
