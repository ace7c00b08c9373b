//! Measures `why` for a running job in a cluster of 1,000 nodes and 8,000 GPUs. The job has 64
//! ranks, one of which is throttled. Prints medians and has no pass or fail criterion.
//! `cargo bench --bench why` takes about five minutes.
#![expect(clippy::disallowed_macros, reason = "a benchmark prints its results")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark waits for its cluster"
)]

use std::fmt::Write as _;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::exporter::{Exporter, Fleet};
use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Cluster, Options, Persona, load};
use serde_json::{Value, json};

const NODES: usize = 1000;
const RANKS: usize = 64;
const RUNS: usize = 9;

const JOB: &str = "kind: training\nversion: v0.1\njob: {name: llm}\nenvironment: {image: i, command: [train]}\nresources: {gpu: 1, node_count: 64}\n";

/// Assigns a busy device to each rank, and throttles one of the devices.
fn assign_devices(fleet: &mut Fleet, pods: &[(String, String)]) {
    for (rank, (pod, node)) in pods.iter().enumerate() {
        let free = fleet
            .gpus
            .iter_mut()
            .find(|gpu| gpu.node == *node && gpu.pods.is_empty());
        let gpu = free.expect("the node has a free device, because the scheduler counts them");
        gpu.pods = vec![("default".to_owned(), pod.clone(), "main".to_owned())];
        (gpu.utilization, gpu.watts, gpu.limit_watts) = (98.0, 330.0, 400.0);
        let (mhz, reasons) = if rank == 12 { (1110, 0x20) } else { (1410, 0) };
        let labels = format!(
            "gpu=\"{}\",UUID=\"{}\",Hostname=\"{}\",container=\"main\",namespace=\"default\",pod=\"{pod}\"",
            gpu.index, gpu.uuid, gpu.node
        );
        writeln!(fleet.extra, "DCGM_FI_DEV_SM_CLOCK{{{labels}}} {mhz}\nDCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{labels}}} {reasons}")
            .expect("writing to a string succeeds");
    }
}

fn main() {
    let exporter = Exporter::start().expect("a port is free");
    let options = Options {
        exporters: vec![exporter.address()],
        ..Options::default()
    };
    let cluster = Cluster::start(&options).expect("the sandbox starts");
    let product = Some(("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"));
    let nodes: Vec<Value> = (0..NODES)
        .map(|index| {
            node(
                &format!("gpu-{index:04}"),
                product,
                &[("nvidia.com/gpu", 8)],
            )
        })
        .collect();
    nodes.chunks(250).for_each(|part| cluster.add_nodes(part));
    let admin = cluster.kubectl(Persona::Admin);
    let (kubeconfig, prometheus) = (cluster.kubeconfig(Persona::Admin), cluster.prometheus());
    let gpuctl = |arguments: &[&str]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        command
            .env("KUBECONFIG", &kubeconfig)
            .env("GPUCTL_PROMETHEUS", &prometheus)
            .args(arguments);
        command.output().expect("gpuctl starts")
    };
    let file = std::env::temp_dir().join(format!("gpuctl-bench-why-{}.yaml", std::process::id()));
    std::fs::write(&file, JOB).expect("a temporary file can be written");
    let created = gpuctl(&[
        "create",
        "-f",
        &file.to_string_lossy(),
        "--wait",
        "--timeout",
        "180s",
    ]);
    assert!(
        created.status.success(),
        "{}",
        String::from_utf8_lossy(&created.stderr)
    );
    let _ = std::fs::remove_file(&file);
    let list = admin.json(&["get", "pods", "-l", "gpuctl/job=llm"]);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let pods = list["items"].as_array().expect("a list").iter();
    let pods: Vec<(String, String)> = pods
        .map(|pod| {
            (
                text(&pod["metadata"]["name"]),
                text(&pod["spec"]["nodeName"]),
            )
        })
        .collect();
    assert_eq!(pods.len(), RANKS);
    exporter.change(|fleet| {
        fleet.gpus = load::devices(&nodes);
        fleet.gpus.iter_mut().for_each(|gpu| gpu.pods.clear());
        assign_devices(fleet, &pods);
    });
    // Wait until Prometheus has scraped the throttled device. After the time limit, the benchmark
    // prints the last answer.
    let end = Instant::now() + Duration::from_secs(240);
    let answer = loop {
        let answer: Value = serde_json::from_slice(&gpuctl(&["why", "llm", "-o", "json"]).stdout)
            .unwrap_or(json!(null));
        if answer["situation"] == "slow" || Instant::now() > end {
            break answer;
        }
        thread::sleep(Duration::from_secs(3));
    };
    println!(
        "{} nodes, {} GPUs, {RANKS} ranks: {}\n",
        NODES,
        NODES * 8,
        answer["sentence"]
    );
    for arguments in [&["why", "llm"][..], &["why", "--all"], &["free"]] {
        let mut times: Vec<Duration> = (0..RUNS)
            .map(|_| {
                let start = Instant::now();
                let output = gpuctl(arguments);
                assert!(
                    output.status.success(),
                    "{}",
                    String::from_utf8_lossy(&output.stderr)
                );
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!(
            "gpuctl {:<24} {:>8.1} ms",
            arguments.join(" "),
            times[RUNS / 2].as_secs_f64() * 1000.0
        );
    }
}
