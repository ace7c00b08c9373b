//! What reading commands cost on a thousand nodes and eight thousand pods of a real API server,
//! beside the bare server, kubectl, kubectl-view-allocations and promtool, in one run; and how time
//! and memory grow up to half a million pods, on a replay of the same objects. It prints and judges
//! nothing. `cargo bench-cluster` needs about half an hour; `-- 20000` takes as many pods for the
//! first part alone, `-- grow` does the second alone, `-- metrics` what asks Prometheus too, and
//! `-- plot` draws the growth from RESULTS.md.
#![expect(clippy::disallowed_macros, reason = "a benchmark prints its figures")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark arranges files and looks at processes"
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
use crate::measure::{Contestant, Cost, RUNS, Server, in_turn};

const NODES: usize = 1000;
const PODS: usize = 8000;

/// As a device plugin and kubelets of a real cluster make them: with owners, volumes, conditions
/// and managed fields. Each has a GPU until there is none left.
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
            "annotations": {"example.com/note": "this pod trains a model, as all of them here do"}},
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
        assert!(Instant::now() < end, "{waiting} pods never run");
        std::thread::sleep(Duration::from_secs(3));
    }
}

/// What is compared.
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
    let all = [
        floor("JSON", "application/json", server, token),
        floor("protobuf", PROTOBUF, server, token),
        at_once("pods and nodes as protobuf", &INVENTORY, server, token),
        gpuctl("get nodes"),
        gpuctl("get pools"),
        gpuctl("get overview"),
        gpuctl("get workloads"),
        gpuctl(JOBS.trim_start_matches("gpuctl ")),
        gpuctl("free"),
        kubectl("get pods -A"),
        kubectl("get nodes"),
    ];
    all.into_iter().chain(allocations).collect()
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The server's own time for all pods, unpaged.
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

/// The command whose requests are also sent by curl.
const JOBS: &str = "gpuctl get jobs -A";

/// What an inventory is made of, whole.
const INVENTORY: [&str; 2] = ["/api/v1/pods", "/api/v1/nodes"];

/// The server's own time for these requests, all at once.
fn at_once(name: &str, paths: &[impl AsRef<str>], server: &str, token: &str) -> Contestant {
    let (authorization, accept) = (
        format!("Authorization: Bearer {token}"),
        format!("Accept: {PROTOBUF}, application/json"),
    );
    let urls: Vec<String> = paths
        .iter()
        .map(|path| format!("{server}{}", path.as_ref()))
        .collect();
    // Without `-f`: a kind that is not there is an answer as well.
    let common = ["-sSk", "--parallel", "-H", &authorization, "-H", &accept];
    let words: Vec<&str> = common
        .into_iter()
        .chain(urls.iter().flat_map(|url| ["-o", "/dev/null", url]))
        .collect();
    Contestant::new(&format!("curl --parallel, {name}"), "curl", &words)
}

/// What lists cost, of a cluster with so many pods.
fn lists(cluster: &Cluster, server: &Server, pods: usize) {
    let counter = Counter::of(cluster);
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
        .find(|one| one.name == JOBS)
        .expect("it is one of them");
    let paths = counter.counts(&mut jobs.command()).requests;
    let name = format!("the {} requests of {JOBS}", paths.len());
    counted.push(at_once(&name, &paths, &counter.server, &counter.token));
    contestants.push(at_once(
        &name,
        &paths,
        &cluster.api_server(),
        &cluster.token(Persona::Admin),
    ));
    let costs = in_turn(&contestants, cluster, server);
    println!("{NODES} nodes, {pods} pods, the middle of {RUNS} runs");
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
        let Counts { requests, bytes } = counter.counts(&mut contestant.command());
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
    let asked = |part: &str| words.iter().any(|word| word == part);
    if asked("plot") {
        plot::draw();
        return;
    }
    let cluster = Cluster::start(&Options::default()).expect("the cluster starts");
    // Those of the sandbox look at every pod each second, which takes one of two cores, and are not
    // what is measured.
    for part in ["prometheus", "kube-state-metrics"] {
        cluster.stop(part).expect("it was started");
    }
    if asked("grow") {
        growth::show(&cluster, &replay::Sample::small(&cluster));
        return;
    }
    let pods = words.iter().find_map(|word| word.parse().ok());
    fill(&cluster, pods.unwrap_or(PODS));
    let server = Server::of(&cluster);
    if !asked("metrics") {
        lists(&cluster, &server, pods.unwrap_or(PODS));
    }
    if !asked("metrics") && pods.is_none() {
        // The cockpit is looked at while pods end, that of the sample first.
        let sample = replay::Sample::of(&cluster);
        cockpit::show(&cluster, &server);
        growth::show(&cluster, &sample);
    }
    if pods.is_none() {
        // Last, for its Prometheus scrapes to the end.
        let (address, token) = (cluster.api_server(), cluster.token(Persona::Admin));
        let floors = [
            floor("protobuf", PROTOBUF, &address, &token),
            at_once("pods and nodes as protobuf", &INVENTORY, &address, &token),
        ];
        metrics::show(&cluster, &server, &nodes(), floors);
    }
}
