//! Measures read commands in a cluster with a thousand nodes and eight thousand pods.
//!
//! The first part compares them with kubectl, kubectl-view-allocations, promtool and plain API
//! requests on a real API server. The second part replays copies of the same objects, and measures
//! how time and memory grow up to half a million pods. The benchmark has no pass or fail criterion.
//!
//! `cargo bench-cluster` takes about half an hour. `-- 20000` runs only the first part, with this
//! many pods, `-- grow` only the second part, and `-- metrics` only the commands that query
//! Prometheus. `-- plot` draws the growth from RESULTS.md.
#![expect(clippy::disallowed_macros, reason = "a benchmark prints its results")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark writes files and reads the state of processes"
)]

#[path = "fleet/allocations.rs"]
mod allocations;
#[path = "fleet/cockpit.rs"]
mod cockpit;
#[path = "fleet/counted.rs"]
mod counted;
#[path = "fleet/growth.rs"]
mod growth;
mod line;
#[path = "fleet/measure.rs"]
mod measure;
#[path = "fleet/metrics.rs"]
mod metrics;
#[path = "fleet/plot.rs"]
mod plot;
#[path = "process.rs"]
mod process;
#[path = "fleet/replay.rs"]
mod replay;

use std::path::Path;
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Cluster, Options, Persona};
use serde_json::{Value, json};

use crate::counted::{Counter, Counts};
use crate::measure::{Contestant, Cost, RUNS, Server, measure_alternating};

const NODES: usize = 1000;
const PODS: usize = 8000;

/// Returns a pod of a realistic size: the API server and kwok add conditions and managed fields.
/// Each pod gets a GPU until all GPUs are in use.
fn pod(index: usize) -> Value {
    let name = format!("p-{index:07}");
    let mut resources =
        json!({"limits": {"memory": "64Gi"}, "requests": {"cpu": "8", "memory": "64Gi"}});
    if index < 8 * NODES {
        resources["limits"]["nvidia.com/gpu"] = "1".into();
    }
    let variables: Vec<Value> =
        (0..10).map(|number| json!({"name": format!("SETTING_{number}"), "value": format!("value of {number}")})).collect();
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": format!("team-{}", index % 10), "labels": {"app": "training", "gpuctl/job": "many", "team": "research"},
            "annotations": {"example.com/note": "this pod trains a model, like all other pods here"}},
        "spec": {"nodeName": format!("n-{:05}", index % NODES), "automountServiceAccountToken": false,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "registry.example.com/team/training:v1", "command": ["torchrun", "train.py"],
                "env": variables, "resources": resources, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "emptyDir": {}}]}})
}

fn nodes() -> Vec<Value> {
    let product = Some(("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"));
    (0..NODES)
        .map(|index| node(&format!("n-{index:05}"), product, &[("nvidia.com/gpu", 8)]))
        .collect()
}

fn fill(cluster: &Cluster, pods: usize) {
    let admin = cluster.kubectl(Persona::Admin);
    for part in nodes().chunks(250) {
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": part}));
    }
    for team in 0..10 {
        admin.run(&["create", "namespace", &format!("team-{team}")]);
    }
    let pods: Vec<Value> = (0..pods).map(pod).collect();
    for part in pods.chunks(1000) {
        admin.run_with(
            &["create", "-f", "-"],
            &json!({"apiVersion": "v1", "kind": "List", "items": part}).to_string(),
        );
    }
    let end = Instant::now() + Duration::from_secs(900);
    loop {
        let waiting = admin
            .run(&[
                "get",
                "pods",
                "-A",
                "--field-selector",
                "status.phase=Pending",
                "-o",
                "name",
            ])
            .lines()
            .count();
        if waiting == 0 {
            return;
        }
        assert!(
            Instant::now() < end,
            "{waiting} pods did not start within 900 s"
        );
        // Not `eventually`, whose frequent polls would slow down the start of the pods.
        std::thread::sleep(Duration::from_secs(3));
    }
}

/// Lists the commands to compare, with their names in the table.
fn contestants(
    cluster: &Cluster,
    server: &str,
    token: &str,
    allocations: Option<&Path>,
) -> Vec<Contestant> {
    let gpuctl = |line: &str| {
        Contestant::new(
            &format!("gpuctl {line}"),
            env!("CARGO_BIN_EXE_gpuctl"),
            &line.split(' ').collect::<Vec<_>>(),
        )
    };
    let kubectl = |line: &str| {
        let program = cluster.binary("kubectl").display().to_string();
        Contestant::new(
            &format!("kubectl {line}"),
            &program,
            &line.split(' ').collect::<Vec<_>>(),
        )
    };
    let allocations = allocations.map(|program| {
        Contestant::new(
            "kubectl-view-allocations -r gpu",
            &program.display().to_string(),
            &["-r", "gpu"],
        )
    });
    let contestants = [
        floor("JSON", "application/json", server, token),
        floor("protobuf", PROTOBUF, server, token),
        parallel_curl("pods and nodes as protobuf", &INVENTORY, server, token),
        gpuctl("get nodes"),
        gpuctl("get pools"),
        gpuctl("get overview"),
        gpuctl("get workloads"),
        gpuctl(JOBS.trim_start_matches("gpuctl ")),
        gpuctl("free"),
        kubectl("get pods -A"),
        kubectl("get nodes"),
    ];
    contestants.into_iter().chain(allocations).collect()
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Prepares the lower bound for any client: a curl request that lists all pods in a single page.
fn floor(name: &str, accept: &str, server: &str, token: &str) -> Contestant {
    let (authorization, accept) = (
        format!("Authorization: Bearer {token}"),
        format!("Accept: {accept}"),
    );
    let words = [
        "-sSfk",
        "-o",
        "/dev/null",
        "-H",
        &authorization,
        "-H",
        &accept,
        &format!("{server}/api/v1/pods"),
    ];
    Contestant::new(&format!("curl, all pods as {name}"), "curl", &words)
}

/// The command whose requests are repeated with curl for comparison.
const JOBS: &str = "gpuctl get jobs -A";

/// The lists that gpuctl reads for its inventory.
const INVENTORY: [&str; 2] = ["/api/v1/pods", "/api/v1/nodes"];

/// Prepares a curl command that sends the requests for all `paths` concurrently.
fn parallel_curl(name: &str, paths: &[impl AsRef<str>], server: &str, token: &str) -> Contestant {
    let (authorization, accept) = (
        format!("Authorization: Bearer {token}"),
        format!("Accept: {PROTOBUF}, application/json"),
    );
    let urls: Vec<String> = paths
        .iter()
        .map(|path| format!("{server}{}", path.as_ref()))
        .collect();
    // No `-f`, because a 404 for a kind that is not installed is a valid response.
    let common = ["-sSk", "--parallel", "-H", &authorization, "-H", &accept];
    let words: Vec<&str> = common
        .into_iter()
        .chain(urls.iter().flat_map(|url| ["-o", "/dev/null", url]))
        .collect();
    Contestant::new(&format!("curl --parallel, {name}"), "curl", &words)
}

/// Measures commands that list a cluster's objects, and prints a table.
fn measure_lists(cluster: &Cluster, server: &Server, pods: usize) {
    let counter = Counter::new(cluster);
    let allocations = allocations::ready();
    let mut counted = contestants(
        cluster,
        &counter.server,
        &counter.token,
        allocations.as_deref(),
    );
    let mut contestants = contestants(
        cluster,
        &cluster.api_server(),
        &cluster.token(Persona::Admin),
        allocations.as_deref(),
    );
    let jobs = counted
        .iter()
        .find(|contestant| contestant.name == JOBS)
        .expect("the command is a contestant");
    let paths = counter.count(&mut jobs.command()).requests;
    let name = format!("the {} requests of {JOBS}", paths.len());
    counted.push(parallel_curl(
        &name,
        &paths,
        &counter.server,
        &counter.token,
    ));
    contestants.push(parallel_curl(
        &name,
        &paths,
        &cluster.api_server(),
        &cluster.token(Persona::Admin),
    ));
    let costs = measure_alternating(&contestants, cluster, server);
    println!("{NODES} nodes, {pods} pods, medians of {RUNS} runs");
    println!(
        "| | time, ms | CPU, ms | peak, MiB | CPU of the API server, ms | requests | MB |\n|---|---:|---:|---:|---:|---:|---:|"
    );
    for (contestant, cost) in counted.iter().zip(costs) {
        let Cost {
            wall,
            cpu,
            peak,
            server,
        } = cost;
        let Counts { requests, bytes } = counter.count(&mut contestant.command());
        let (name, requests) = (&contestant.name, requests.len());
        println!(
            "| `{name}` | {} | {} | {peak:.0} | {} | {requests} | {:.1} |",
            wall.as_millis(),
            cpu.as_millis(),
            server.as_millis(),
            bytes as f64 / 1e6
        );
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let is_requested = |part: &str| words.iter().any(|word| word == part);
    if is_requested("plot") {
        plot::draw();
        return;
    }
    let cluster = Cluster::start(&Options::default()).expect("the cluster starts");
    // The sandbox's Prometheus and kube-state-metrics process every pod each second. This would
    // keep one of two cores busy and distort the results.
    for part in ["prometheus", "kube-state-metrics"] {
        cluster.stop(part).expect("the part was started");
    }
    if is_requested("grow") {
        growth::show(&cluster, &replay::Sample::small(&cluster));
        return;
    }
    let pods = words.iter().find_map(|word| word.parse().ok());
    fill(&cluster, pods.unwrap_or(PODS));
    let server = Server::find(&cluster);
    if !is_requested("metrics") {
        measure_lists(&cluster, &server, pods.unwrap_or(PODS));
    }
    if !is_requested("metrics") && pods.is_none() {
        // Take the sample first: the cockpit benchmark deletes pods, including one that the sample
        // needs.
        let sample = replay::Sample::new(&cluster);
        cockpit::show(&cluster, &server);
        growth::show(&cluster, &sample);
    }
    if pods.is_none() {
        // This part comes last, because its Prometheus keeps scraping until the end.
        let (address, token) = (cluster.api_server(), cluster.token(Persona::Admin));
        let floors = [
            floor("protobuf", PROTOBUF, &address, &token),
            parallel_curl("pods and nodes as protobuf", &INVENTORY, &address, &token),
        ];
        metrics::show(&cluster, &server, &nodes(), floors);
    }
}
