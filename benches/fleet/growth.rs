//! Measures how the client's time and memory grow with the size of the cluster. The objects are
//! replayed, so the server has almost no work to do.

use std::fs;
use std::process::Command;

use gpuctl_sandbox::Cluster;
use serde_json::json;

use crate::measure::measure;
use crate::replay::Sample;

/// Numbers of nodes and pods.
const SIZES: [(usize, usize); 5] = [
    (1000, 8000),
    (1000, 25_000),
    (1000, 100_000),
    (12_000, 100_000),
    (65_000, 500_000),
];
const RUNS: usize = 3;

pub fn show(cluster: &Cluster, sample: &Sample) {
    let (json, protobuf) = sample.sizes();
    println!(
        "\nreplayed, a pod of {json} bytes in JSON and {protobuf} in protobuf, medians of {RUNS} runs"
    );
    println!(
        "| nodes | pods | command | encoding | time, ms | CPU, ms | peak, MiB |\n|---:|---:|---|---|---:|---:|---:|"
    );
    for (nodes, pods) in SIZES {
        for (encoding, with_protobuf) in [("protobuf", true), ("JSON", false)] {
            let server = sample.serve(nodes, pods, with_protobuf);
            let config = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            });
            let path = cluster.folder().join(format!("replay-{pods}-{encoding}"));
            fs::write(&path, config.to_string()).expect("the folder is writable");
            for line in ["get nodes", "get overview", "get workloads"] {
                let mut costs: Vec<_> = (0..RUNS)
                    .map(|_| {
                        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
                        measure(
                            command
                                .args(line.split(' '))
                                .env("KUBECONFIG", &path)
                                .env("GPUCTL_PROMETHEUS", "none"),
                        )
                    })
                    .collect();
                costs.sort_by_key(|cost| cost.wall);
                let cost = costs[RUNS / 2];
                println!(
                    "| {nodes} | {pods} | `gpuctl {line}` | {encoding} | {} | {} | {:.0} |",
                    cost.wall.as_millis(),
                    cost.cpu.as_millis(),
                    cost.peak
                );
            }
        }
    }
}
