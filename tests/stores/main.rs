//! The same samples in Prometheus, VictoriaMetrics and Thanos: every view of metrics answers alike, and a store with two clusters
//! answers for one of them. `cargo reality` runs them, for the stores take minutes to build, once.
#![expect(clippy::disallowed_methods, reason = "tests look at clocks")]

#[path = "../runner/mod.rs"]
mod runner;

use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::exporter::{Dialect, Exporter};
use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona, load};
use serde_json::{Value, json};

use crate::runner::{Run, gpuctl, run};

const A100: (&str, &str) = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
/// Seconds in which each of the jobs is scraped.
const EACH: u64 = 20;

fn scrape(exporter: &Exporter) -> Value {
    json!({"job_name": "gpus", "metrics_path": format!("/metrics/{}", Dialect::Dcgm.name()),
        "static_configs": [{"targets": [exporter.address()], "labels": {"namespace": "gpu-operator", "pod": "exporter", "container": "exporter"}}]})
}

/// A cluster with two exporters: one of its own nodes, and one of nodes that it does not have.
struct Stage {
    cluster: Cluster,
    own: Exporter,
    foreign: Exporter,
}

impl Stage {
    fn gpuctl(&self, prometheus: &str, arguments: &[&str], input: &str) -> Run {
        let mut command = gpuctl();
        command.env("KUBECONFIG", self.cluster.kubeconfig(Persona::Admin)).env("GPUCTL_PROMETHEUS", prometheus);
        command.env("XDG_CACHE_HOME", self.cluster.folder().join(format!("cache-{}", prometheus.len()))).args(arguments);
        run(command, input)
    }

    /// Runs a job of two pods with two devices each, busy to this degree, and ends it after a while.
    fn job(&self, name: &str, busy: f64) {
        let yaml = format!(
            "kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: busybox, command: [train]}}\nresources: {{pool: stores, gpu: 2, node_count: 2}}\n"
        );
        self.gpuctl("none", &["create", "-f", "-", "--wait", "--timeout", "60s"], &yaml).ok();
        let list = self.cluster.kubectl(Persona::Admin).json(&["get", "pods", "-l", &format!("gpuctl/job={name}")]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        self.own.change(|fleet| {
            for pod in list["items"].as_array().unwrap() {
                let (pod_name, node) = (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]));
                let free = fleet.gpus.iter_mut().filter(|gpu| gpu.node == node && gpu.pods.is_empty()).take(2);
                for (gpu, place) in free.zip(0_u8..) {
                    gpu.pods = vec![("default".to_owned(), pod_name.clone(), "main".to_owned())];
                    (gpu.utilization, gpu.watts) = (busy + f64::from(place), 300.0);
                }
            }
        });
        thread::sleep(Duration::from_secs(EACH));
        // Its series end: Prometheus marks them as stale.
        self.own.change(|fleet| fleet.gpus.iter_mut().for_each(|gpu| gpu.pods.clear()));
        self.gpuctl("none", &["delete", "job", name, "--force"], "").ok();
    }
}

fn seconds() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[test]
fn stores_answer_alike_and_for_one_cluster() {
    let options = Options { with_stores: true, ..Options::default() };
    let cluster = Cluster::start(&options).unwrap_or_else(|error| panic!("{error:#}"));
    let (own, foreign) = (Exporter::start().unwrap(), Exporter::start().unwrap());
    let of = |names: [&str; 2]| names.map(|name| in_pool(node(name, Some(A100), &[("nvidia.com/gpu", 4)]), "stores")).to_vec();
    let (nodes, others) = (of(["stores-0", "stores-1"]), of(["elsewhere-0", "elsewhere-1"]));
    cluster.add_nodes(&nodes);
    own.change(|fleet| fleet.gpus = load::devices(&nodes));
    own.change(|fleet| fleet.gpus.iter_mut().for_each(|gpu| gpu.pods.clear()));
    foreign.change(|fleet| fleet.gpus = load::devices(&others));
    let victoria = cluster.victoria_metrics("victoria").unwrap();
    let prometheus = cluster
        .labelled_prometheus("store-a", &json!({"cluster": "a", "replica": "0"}), &[scrape(&own)], Some(&victoria))
        .unwrap();
    let other =
        cluster.labelled_prometheus("store-b", &json!({"cluster": "b", "replica": "0"}), &[scrape(&foreign)], None).unwrap();
    let thanos = cluster.thanos("thanos", &[("store-a", &prometheus)]).unwrap();
    let both = cluster.thanos("both", &[("store-a", &prometheus), ("store-b", &other)]).unwrap();
    let stage = Stage { cluster, own, foreign };
    let begin = seconds();
    stage.job("first", 90.0);
    stage.job("second", 40.0);
    stage.foreign.change(|fleet| fleet.gpus.iter_mut().for_each(|gpu| gpu.utilization = 3.0));
    let end = seconds();
    // What is sent on is there some seconds later.
    thread::sleep(Duration::from_secs(8));
    let (start, end) = (begin.to_string(), end.to_string());
    let span = ["--start", start.as_str(), "--end", end.as_str()];
    let views: [&[&str]; 6] = [
        &["report", "-o", "json"],
        &["report", "-o", "csv"],
        &["eff", "first", "-o", "json"],
        &["eff", "second", "-o", "json"],
        &["snapshot", "list", "--step", "10", "-o", "json"],
        &["get", "metrics", "workload", "first", "-o", "json"],
    ];
    for view in views {
        let arguments = [view, &span[..]].concat();
        let expected = stage.gpuctl(&prometheus, &arguments, "");
        for (name, store) in [("victoria", &victoria), ("thanos", &thanos), ("both", &both)] {
            let told = stage.gpuctl(store, &arguments, "");
            assert_eq!((told.code, &told.out), (expected.code, &expected.out), "{name}: {arguments:?}\n{}", told.err);
        }
    }
    // Hours are open until now: what devices measured is over, and is the same.
    let whole = (begin / 3600 * 3600).to_string();
    let hour = |store: &str| {
        let rows = stage.gpuctl(store, &["stats", "cluster", "-o", "json", "--start", &whole, "--no-cache"], "").ok().json();
        let keys = [
            "avg_utilization",
            "min_utilization",
            "max_utilization",
            "device_p50_utilization",
            "device_sample_count",
            "dropped_sample_count",
        ];
        let row = |row: &Value| keys.map(|key| row[key].clone());
        rows.as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    let expected = hour(&prometheus);
    assert!(expected.iter().any(|row| row[4].as_u64().is_some_and(|samples| samples > 100)), "{expected:?}");
    for (name, store) in [("victoria", &victoria), ("thanos", &thanos), ("both", &both)] {
        assert_eq!(hour(store), expected, "{name}");
    }
    // By hand: four devices of each job, half of them at 90 and 91, then at 40 and 41, and none of the other cluster's at 3.
    let report = stage.gpuctl(&both, &[&["report", "-o", "json"], &span[..]].concat(), "").ok().json();
    let group = &report["groups"][0];
    let (held, busy) = (group["held_gpu_hours"].as_f64().unwrap(), group["utilization"].as_f64().unwrap());
    let least = 2.0 * 4.0 * EACH as f64 / 3600.0;
    assert!((least * 0.8..least * 1.8).contains(&held), "{report:#}");
    assert!((58.0..73.0).contains(&busy), "{report:#}");
    let refused =
        stage.gpuctl(&both, &["stats", "cluster", "--start", &whole, "--match", "cluster=c", "-o", "json", "--no-cache"], "");
    let none = refused.ok().says("has no data about pods of this time").json();
    assert!(none.as_array().unwrap().iter().all(|row| row["avg_utilization"].is_null()), "{none:#}");
    until_lists_agree(&stage, &[&prometheus, &victoria, &thanos]);
}

/// Lists of what is now follow each store's newest sample, so they may need a moment to agree.
fn until_lists_agree(stage: &Stage, stores: &[&String]) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let lists: Vec<Vec<Value>> = stores
            .iter()
            .map(|store| {
                let nodes = stage.gpuctl(store, &["get", "nodes", "-o", "json"], "").ok().json();
                let row = |row: &Value| json!([row["nodeName"], row["gpuTotal"], row["gpuUsed"], row["gpuUtilization"]]);
                nodes["items"].as_array().unwrap().iter().map(row).collect()
            })
            .collect();
        if lists.iter().all(|list| *list == lists[0]) {
            return;
        }
        assert!(Instant::now() < end, "{lists:#?}");
        thread::sleep(Duration::from_secs(1));
    }
}
