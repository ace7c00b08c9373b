//! Counts the instructions that the hot paths execute with a thousand nodes, to detect regressions.
//! Durations vary between machines and runs, but instruction counts hardly do.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use gpuctl_cluster::fuzz::{consumers_in, protobuf_seed};
use gpuctl_core::model::{Consumers, Inventory, Node, NodeDetails, Point, Series};
use gpuctl_core::stats::exporters::devices;
use gpuctl_core::stats::exporters::devices::ExporterReading;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_prometheus::fuzz::points_in;
use gpuctl_view::format::table::{Cell, Table, left};
use gpuctl_view::{Format, TextStyle};

/// Name, function and expected cost of each path, in millions of instructions of a test build. A
/// release build executes only a fraction of them.
const PATHS: [(&str, fn(), f64); 5] = [
    ("ten pages of 200 pods in protobuf", protobuf_page, 620.0),
    ("ten pages of 200 pods in JSON", json_page, 404.0),
    (
        "the devices of 50 nodes from 1,200 series",
        map_devices,
        160.0,
    ),
    ("a table of 1,000 rows", table, 180.0),
    ("ten answers of 100 series with 100 points", matrix, 367.0),
];

/// How often to repeat a cheap path, so that the creation of its input does not dominate the count.
const REPETITIONS: usize = 10;

/// Tolerated relative deviation. Counts differ slightly between processors, compilers and
/// libraries.
const TOLERANCE: f64 = 0.25;

fn pods() -> String {
    let pod = |number: usize| {
        json!({
            "metadata": {"name": format!("sft-{number}"), "namespace": "team-a", "uid": format!("u{number}"),
                "labels": {"gpuctl/job": "sft", "app.kubernetes.io/managed-by": "gpuctl"}},
            "spec": {"nodeName": format!("gpu-{}", number / 8), "containers": [{"name": "main", "resources": {
                "requests": {"cpu": "1500m", "memory": "64Gi", "nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}}}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:03Z"}}}]},
        })
    };
    json!({"metadata": {}, "items": (0..200).map(pod).collect::<Vec<Value>>()}).to_string()
}

fn protobuf_page() {
    let page = protobuf_seed(&pods());
    (0..REPETITIONS).for_each(|_| assert_eq!(consumers_in(&page, true), 200));
}

fn json_page() {
    let page = pods();
    (0..REPETITIONS).for_each(|_| assert_eq!(consumers_in(page.as_bytes(), false), 200));
}

fn map_devices() {
    let resources: BTreeMap<String, String> =
        [("nvidia.com/gpu".to_owned(), "8".to_owned())].into();
    let host = |number: usize| NodeDetails {
        node: Node {
            name: format!("gpu-{number}"),
            schedulable: true,
            ..Node::default()
        },
        capacity: resources.clone(),
        allocatable: resources.clone(),
        ..NodeDetails::default()
    };
    let inventory = Inventory::new(
        (0..50).map(host).collect(),
        Some(&Consumers::default()),
        &[],
    );
    let facts = ApiFacts::from_inventory(&inventory, Some(&Consumers::default()));
    let mut values = Vec::new();
    for name in [
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_GPU_TEMP",
    ] {
        for (node, gpu) in (0..50).flat_map(|node| (0..8).map(move |gpu| (node, gpu))) {
            let labels = [
                ("__name__", name.to_owned()),
                ("gpu", gpu.to_string()),
                ("Hostname", format!("gpu-{node}")),
            ];
            let labels = labels
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect();
            values.push(Series {
                labels,
                points: vec![Point { at: 0, value: 42.0 }],
            });
        }
    }
    let readings = devices::read(
        &ExporterReading {
            values,
            ..ExporterReading::default()
        },
        &inventory,
        &facts,
    );
    assert_eq!(readings.devices.len(), 400);
}

fn table() {
    let mut table = Table::new(["NAME", "NODE", "STATE", "GPUS", "UTIL", "AGE"].map(left));
    for row in 0..1000 {
        table.row(
            (0..6)
                .map(|column| Cell::from(format!("cell-{row}-{column}")))
                .collect(),
        );
    }
    let look = TextStyle {
        width: Some(200),
        color: false,
        plain: false,
    };
    assert_eq!(table.show(Format::Table, true, look).lines().count(), 1001);
}

fn matrix() {
    let points: Vec<Value> = (0..100)
        .map(|point| json!([1_700_000_000 + 30 * point, (point * 7 % 101).to_string()]))
        .collect();
    let series = |gpu: usize| json!({"metric": {"__name__": "util", "gpu": gpu.to_string(), "pod": "sft-0"}, "values": points});
    let result: Vec<Value> = (0..100).map(series).collect();
    let response = json!({"status": "success", "data": {"resultType": "matrix", "result": result}})
        .to_string();
    (0..REPETITIONS).for_each(|_| assert_eq!(points_in(&response), 10_000));
}

/// Environment variable that selects the path to run in the child process.
const PATH_VARIABLE: &str = "GPUCTL_COST";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test tells its child what to do"
)]
fn the_chosen_path() {
    let Ok(selected) = std::env::var(PATH_VARIABLE) else {
        return;
    };
    PATHS
        .iter()
        .filter(|(name, ..)| *name == selected)
        .for_each(|(_, path, _)| path());
}

/// Counts the instructions, in millions, that a child process executes for `path`. The path `none`
/// runs only the test harness.
fn count_instructions(path: &str) -> f64 {
    let program = std::env::current_exe().expect("a test has a program");
    let mut command = Command::new("valgrind");
    command
        .args([
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
        ])
        .arg(program);
    command
        // Run only this one test, so that nothing else is counted.
        .args(["--exact", "cost::the_chosen_path", "--test-threads=1"])
        .env(PATH_VARIABLE, path);
    let output = command
        .output()
        .expect("valgrind can be started: `apt-get install valgrind`");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{path}: {stderr}");
    // Valgrind versions print either `I   refs:` or `I refs:`.
    let count = |line: &str| {
        line.split_once('I')?
            .1
            .trim_start()
            .strip_prefix("refs:")
            .map(|count| count.trim().to_owned())
    };
    let count = stderr
        .lines()
        .find_map(count)
        .unwrap_or_else(|| panic!("no count: {stderr}"));
    count.replace(',', "").parse::<f64>().expect("a number") / 1e6
}

#[test]
#[ignore = "needs valgrind and a minute: `cargo test --lib cost -- --ignored`, which .ci/run does"]
fn hot_paths_cost_what_they_did() {
    // Subtract the cost of the test harness itself.
    let start = count_instructions("none");
    let mut deviations = Vec::new();
    for (name, _, expected) in PATHS {
        let cost = count_instructions(name) - start;
        if (cost / expected - 1.0).abs() > TOLERANCE {
            deviations.push(format!("{name}: {cost:.1} instead of {expected}"));
        }
    }
    assert!(
        deviations.is_empty(),
        "find out why, or write the new counts into PATHS: {deviations:#?}"
    );
}
