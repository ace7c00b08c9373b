//! Tests a cluster of a thousand nodes: paging in the API server and in gpuctl, and sums that are
//! compared with kubectl's numbers. The test has its own cluster, because its nodes would slow down
//! other tests.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona, eventually};
use serde_json::{Value, json};

const NODES: usize = 1000;

#[test]
fn a_thousand_nodes_are_listed_in_pages() {
    let cluster = Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
    let admin = cluster.kubectl(Persona::Admin);
    let product = |name| Some(("nvidia.com/gpu.product", name));
    let fleet: Vec<Value> = (0..NODES)
        .map(|index| match index % 10 {
            // One node in ten has no GPU. Another one in ten has the second GPU type and is in a
            // pool.
            0 => node(&format!("n-{index:04}"), None, &[]),
            1 => in_pool(
                node(
                    &format!("n-{index:04}"),
                    product("NVIDIA-H100-80GB-HBM3"),
                    &[("nvidia.com/gpu", 4)],
                ),
                "far",
            ),
            _ => node(
                &format!("n-{index:04}"),
                product("NVIDIA-A100-SXM4-80GB"),
                &[("nvidia.com/gpu", 8)],
            ),
        })
        .collect();
    for part in fleet.chunks(250) {
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": part}));
    }
    eventually("all nodes are ready", Duration::from_secs(120), || {
        let list = admin.run(&["get", "nodes", "--no-headers"]);
        let ready = list.lines().filter(|line| line.contains(" Ready ")).count();
        (ready >= NODES).then_some(()).ok_or(ready)
    });
    let run = |persona: Persona, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        command
            .env("KUBECONFIG", cluster.kubeconfig(persona))
            .env("GPUCTL_PROMETHEUS", "none")
            .args(arguments)
            .output()
            .unwrap()
    };
    let gpuctl = |arguments: &[&str]| {
        let output = run(Persona::Admin, arguments);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    // The facts about nodes have not been published yet.
    let refused = run(Persona::Viewer, &["get", "nodes"]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("nodes is forbidden"));
    let document =
        |arguments: &[&str]| -> Value { serde_json::from_str(&gpuctl(arguments)).unwrap() };
    let names = |list: &Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["nodeName"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = document(&["get", "nodes", "-o", "json"]);
    assert_eq!(
        (&all["total"], all["items"].as_array().unwrap().len()),
        (&json!(NODES), NODES)
    );
    // kubectl prints no sums, so the test adds up its numbers.
    let allocatable = admin.run(&[
        "get",
        "nodes",
        "-o",
        r#"jsonpath={range .items[*]}{.status.allocatable.nvidia\.com/gpu}{"\n"}{end}"#,
    ]);
    let devices: u64 = allocatable
        .lines()
        .filter_map(|line| line.parse::<u64>().ok())
        .sum();
    let ours: u64 = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["gpuTotal"].as_u64().unwrap())
        .sum();
    assert_eq!((ours, devices), (800 * 8 + 100 * 4, 800 * 8 + 100 * 4));
    let mut seen = BTreeSet::new();
    for page in 1..=7 {
        let part = document(&[
            "get",
            "nodes",
            "-o",
            "json",
            "--page",
            &page.to_string(),
            "--page-size",
            "150",
        ]);
        let names = names(&part);
        assert_eq!(
            (part["total"].as_u64(), names.len()),
            (Some(1000), if page == 7 { 100 } else { 150 })
        );
        seen.extend(names);
    }
    assert_eq!(seen.len(), NODES, "every node is on exactly one page");
    assert!(
        names(&document(&[
            "get",
            "nodes",
            "-o",
            "json",
            "--page",
            "8",
            "--page-size",
            "150"
        ]))
        .is_empty()
    );
    assert_eq!(
        gpuctl(&["get", "nodes", "--gpu-type", "h100-80g", "-o", "name"])
            .lines()
            .count(),
        100
    );
    let pool = document(&["describe", "pool", "far", "-o", "json"]);
    assert_eq!(
        (&pool["gpuTotal"], &pool["gpuFree"], &pool["gpuType"]),
        (&json!(400), &json!(400), &json!({"h100-80g": 400}))
    );
    // The published facts about all nodes, for users who may not read nodes, fit into one object.
    let yaml = "kind: pool\nversion: v0.1\npool: {name: near}\nnodes: [n-0002]\n";
    let path = cluster.folder().join("near.yaml");
    std::fs::write(&path, yaml).unwrap();
    gpuctl(&["create", "-f", path.to_str().unwrap()]);
    let facts = admin.run(&[
        "get",
        "configmap",
        "gpuctl-facts",
        "-n",
        "gpuctl-system",
        "-o",
        "jsonpath={.data.nodes}",
    ]);
    let facts: Vec<Value> = serde_json::from_str(&facts).unwrap();
    assert_eq!(facts.len(), NODES);
    let published = run(
        Persona::Viewer,
        &["get", "nodes", "--pool", "near", "-o", "name"],
    );
    assert_eq!(
        (
            published.status.code(),
            String::from_utf8(published.stdout).unwrap().as_str()
        ),
        (Some(0), "n-0002\n")
    );
}
