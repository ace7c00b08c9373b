//! Custom owners, exported by a real kube-state-metrics with the configuration of docs/metrics.md.
//! A workload has the same name while it exists and after its objects are deleted.

use std::thread;
use std::time::Duration;

use gpuctl_sandbox::Persona;
use gpuctl_sandbox::exporter::Dialect;
use serde_json::{Value, json};

use crate::past::{ask, unix_now};
use crate::support::{GPU, Scene, scrape};
use crate::workloads::definition;

const GROUP: &str = "sweeps.example.com";

/// The configuration in docs/metrics.md, with the kinds of this test.
fn configuration(kinds: &[&str]) -> String {
    let page = include_str!("../../docs/metrics.md");
    let from = page
        .find("kind: CustomResourceStateMetrics")
        .expect("docs/metrics.md has the configuration");
    let page = page[from..].split("```").next().expect("the block ends");
    let (head, resource) = page.split_at(
        page.find("    - groupVersionKind")
            .expect("the configuration has a resource"),
    );
    let resource_of = |kind: &&str| {
        resource
            .replace("ray.io", GROUP)
            .replace("RayCluster", kind)
    };
    head.to_owned() + &kinds.iter().map(resource_of).collect::<String>()
}

#[test]
fn a_custom_workload_keeps_its_name_after_deletion() {
    let scene = Scene::new("sweeps", 1);
    let (cluster, admin) = (scene.cluster, scene.cluster.kubectl(Persona::Admin));
    let kinds = ["Experiment", "Trial"];
    let definitions: Vec<Value> = kinds
        .iter()
        .map(|kind| definition(GROUP, "v1", kind))
        .collect();
    admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": definitions}));
    kinds.iter().for_each(|kind| {
        let name = format!("crd/{}s.{GROUP}", kind.to_lowercase());
        admin.run(&[
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            &name,
        ]);
    });
    let make = |api: &str, kind: &str, name: &str, owner: Option<&Value>, spec: Value| {
        let owners: Vec<&Value> = owner.into_iter().collect();
        let metadata = json!({"name": name, "namespace": "sweeps", "ownerReferences": owners});
        admin.apply(&json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}));
        let resource = if api == "v1" {
            "pods".to_owned()
        } else {
            format!("{}s.{GROUP}", kind.to_lowercase())
        };
        let uid = admin.json(&["get", &resource, name, "-n", "sweeps"])["metadata"]["uid"].clone();
        json!({"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": true})
    };
    let (custom, none) = ("sweeps.example.com/v1", json!({}));
    let experiment = make(custom, "Experiment", "learning-rates", None, none.clone());
    let trial = make(custom, "Trial", "learning-rates-7", Some(&experiment), none);
    let begin = unix_now();
    let spec = json!({"nodeSelector": {"gpuctl/pool": "sweeps"},
        "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {GPU: "2"}}}]});
    make("v1", "Pod", "learning-rates-7-x", Some(&trial), spec);
    admin.run(&[
        "wait",
        "--for=condition=Ready",
        "--timeout=60s",
        "pod",
        "learning-rates-7-x",
        "-n",
        "sweeps",
    ]);
    scene.exporter.change(|fleet| {
        fleet.gpus.iter_mut().take(2).for_each(|gpu| {
            gpu.pods = vec![(
                "sweeps".to_owned(),
                "learning-rates-7-x".to_owned(),
                "main".to_owned(),
            )];
            gpu.utilization = 60.0;
        });
    });
    let state = cluster
        .custom_state_metrics("sweeps-state", &configuration(&kinds))
        .unwrap();
    let state_scrape = json!({"job_name": "state", "honor_labels": true, "static_configs": [{"targets": [state]}]});
    let prometheus = cluster
        .another_prometheus(
            "sweeps-store",
            &json!([scrape(&scene.exporter, Dialect::Dcgm, false), state_scrape]),
        )
        .unwrap();
    let cache = cluster.folder().join("sweeps-cache");
    let live = ask(
        &prometheus,
        &cache,
        &["get", "workloads", "-n", "sweeps", "-o", "json"],
    )
    .ok()
    .json();
    let live = live["data"]
        .as_array()
        .unwrap_or_else(|| panic!("{live:#}"));
    assert_eq!(
        (
            live.len(),
            live[0]["kind"].as_str(),
            live[0]["name"].as_str()
        ),
        (1, Some("Experiment"), Some("learning-rates")),
        "{live:#?}"
    );
    // The history needs samples of several scrapes.
    thread::sleep(Duration::from_secs(15));
    scene
        .exporter
        .change(|fleet| fleet.gpus.iter_mut().for_each(|gpu| gpu.pods.clear()));
    // From here on, only the samples of kube-state-metrics show the owners.
    admin.run(&[
        "delete",
        "pod",
        "learning-rates-7-x",
        "-n",
        "sweeps",
        "--force",
        "--grace-period=0",
    ]);
    admin.run(&[
        "delete",
        "trials.sweeps.example.com,experiments.sweeps.example.com",
        "--all",
        "-n",
        "sweeps",
    ]);
    let hour_start = (begin / 3600 * 3600).to_string();
    let stats = [
        "stats",
        "workloads",
        "--start",
        hour_start.as_str(),
        "--namespace",
        "sweeps",
        "--no-cache",
        "-o",
        "json",
    ];
    let stats = ask(&prometheus, &cache, &stats).ok().json();
    let rows = stats["data"]
        .as_array()
        .unwrap_or_else(|| panic!("{stats:#}"));
    let names: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| {
            (
                row["workload_type"].as_str().unwrap(),
                row["workload_name"].as_str().unwrap(),
            )
        })
        .collect();
    assert!(
        !names.is_empty()
            && names
                .iter()
                .all(|name| *name == ("Experiment", "learning-rates")),
        "{stats:#}"
    );
}
