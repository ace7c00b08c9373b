//! Compares curves of metrics with the exported values. Also tests the metrics that trainings write
//! to their logs.

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use crate::support::{Scene, near};

fn values(series: &Value) -> Vec<f64> {
    series
        .as_array()
        .unwrap()
        .iter()
        .map(|point| point["value"].as_f64().unwrap())
        .collect()
}

#[test]
fn metrics_of_a_job_and_its_workload_match_the_exported_values() {
    let scene = Scene::new("curves", 1);
    let pods = scene.train("work", 1, 2);
    scene.load(&pods[0], |index, gpu| {
        gpu.utilization = [90.0, 50.0][index as usize];
        (gpu.used_mib, gpu.free_mib) = (30_720, 51_200);
        gpu.watts = 200.0 + 100.0 * f64::from(index);
    });
    scene.until(&["describe", "job", "work"], |job| {
        job["metrics"]["gpuUtilization"] == 70.0
    });
    // (90 + 50) / 2 in each of the last four seconds.
    let job = scene.until(
        &[
            "get", "metrics", "job", "work", "--start", "4s", "--step", "1s",
        ],
        |job| {
            let points = values(&job["gpuUtilization"]);
            points.len() >= 4 && points.iter().all(|value| (value - 70.0).abs() < 1e-9)
        },
    );
    assert!(
        values(&job["memoryUsage"])
            .iter()
            .all(|value| (value - 30.0).abs() < 1e-9),
        "30,720 MiB each: {job:#}"
    );
    assert_eq!(
        (&job["throughput"], &job["coverage"]["gpus"]),
        (&json!([]), &json!(2))
    );
    let selected = scene.json(&[
        "get",
        "metrics",
        "job",
        "work",
        "--metric",
        "gpuUtilization",
        "--start",
        "4s",
        "--step",
        "1",
    ]);
    assert_eq!(
        selected.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["gpuUtilization"]
    );
    // The lifetime of the job begins before the load; the newest point has the current load.
    let lifetime = scene.json(&["get", "metrics", "job", "work", "--step", "1"]);
    near(
        &lifetime["gpuUtilization"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()["value"],
        70.0,
    );
    let workload = scene.json(&[
        "get", "metrics", "workload", "Job/work", "--start", "4s", "--step", "1",
    ]);
    let series = workload["GPU Utilization"]["series"].as_array().unwrap();
    assert_eq!(
        series
            .iter()
            .map(|line| line["name"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["gpu-0", "gpu-1"]
    );
    let first = |line: &Value| line["points"][0][0].as_f64().unwrap();
    assert_eq!((first(&series[0]), first(&series[1])), (0.9, 0.5));
    // 30,720 of 81,920 MiB.
    assert_eq!(
        first(&workload["GPU Memory Utilization"]["series"][0]),
        0.375
    );
    assert_eq!(first(&workload["GPU Power"]["series"][1]), 300.0);
    let at = series[0]["points"][0][1].as_i64().unwrap();
    assert!(at > 1_700_000_000_000, "milliseconds: {at}");
    // Prometheus limits a query to 11,000 points, so longer ranges need several queries.
    let long = scene.json(&[
        "get", "metrics", "workload", "Job/work", "--start", "13h", "--step", "1",
    ]);
    assert!(
        !long["GPU Utilization"]["series"][0]["points"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let text = scene
        .gpuctl(&[
            "get",
            "metrics",
            "job",
            "work",
            "--per-gpu",
            "--start",
            "10s",
            "--step",
            "1",
        ])
        .ok()
        .out;
    assert!(text.contains("gpu-0  90%"), "{text}");
    scene
        .gpuctl(&["get", "metrics", "job", "work", "--start", "whenever"])
        .exits(2)
        .says("`whenever` is not a valid time");
    scene
        .gpuctl(&["get", "metrics", "job", "nobody"])
        .exits(4)
        .says("job `nobody` does not exist");
    scene
        .gpuctl(&["get", "metrics", "workload", "Job/wrok"])
        .exits(4)
        .says("did you mean `curves/Job/work`?");
}

#[test]
fn training_performance_is_read_from_logs_and_metrics() {
    let scene = Scene::new("telling", 1);
    let pods = scene.train("work", 1, 1);
    let mut log = scene.cluster.pod_log("telling", &pods[0], "main");
    for line in [
        "starting",
        "{'loss': 0.9, 'learning_rate': 2e-05, 'epoch': 0.1}",
        "\u{1b}[32m{'loss': 0.7, 'learning_rate': 1.5e-05, 'epoch': 0.2}\u{1b}[0m",
        "loss of signal",
    ] {
        log.say(line);
    }
    let (pod, namespace) = (pods[0].clone(), scene.name);
    scene.exporter.change(move |fleet| {
        fleet.extra = format!(
            "# TYPE train_samples_per_second gauge\ntrain_samples_per_second{{namespace=\"{namespace}\",pod=\"{pod}\"}} 1250.5\n# TYPE eval_loss gauge\neval_loss{{namespace=\"{namespace}\",pod=\"{pod}\"}} 9\n"
        );
    });
    let list = scene.until(
        &[
            "get",
            "training-performance",
            "Job/work",
            "--start",
            "5m",
            "--step",
            "15",
        ],
        |list| {
            list.as_array()
                .unwrap()
                .iter()
                .any(|row| row["metric"] == "samples_per_second")
                && list
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|row| row["metric"] == "loss")
                    .count()
                    == 2
        },
    );
    let values_of = |metric: &str| -> Vec<f64> {
        let list = list
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["metric"] == metric);
        list.map(|row| row["value"].as_f64().unwrap()).collect()
    };
    assert_eq!(
        (values_of("loss"), values_of("learning_rate")),
        (vec![0.9, 0.7], vec![2e-5, 1.5e-5])
    );
    assert!(
        values_of("samples_per_second")
            .iter()
            .all(|value| *value == 1250.5)
    );
    assert!(
        list.as_array()
            .unwrap()
            .iter()
            .all(|row| row["timestamp"].as_i64().unwrap() > 1_700_000_000_000)
    );
    // A pod without such lines or metrics has an empty list.
    let admin = scene.cluster.kubectl(Persona::Admin);
    admin.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "silent", "namespace": namespace},
        "spec": {"nodeSelector": {"gpuctl/pool": namespace}, "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}));
    admin.run(&[
        "wait",
        "--for=condition=Ready",
        "--timeout=60s",
        "pod",
        "silent",
        "-n",
        namespace,
    ]);
    assert_eq!(
        scene.json(&["get", "training-performance", "Pod/silent"]),
        json!([])
    );
}
