//! What reading commands cost on a thousand nodes and eight thousand pods of a real API server, beside the bare server, kubectl and
//! kubectl-view-allocations, in one run; and how time and memory grow up to half a million pods, on a replay of the same objects.
//! It prints and judges nothing. `cargo bench-cluster` needs about a quarter of an hour; `-- grow` does the second part
//! alone, and `cargo test --bench fleet -- plot` draws it from RESULTS.md.
#![expect(clippy::disallowed_macros, reason = "a benchmark prints its figures")]
#![expect(clippy::disallowed_methods, reason = "a benchmark arranges files and looks at processes")]

#[path = "fleet/cockpit.rs"]
mod cockpit;
#[path = "fleet/counted.rs"]
mod counted;
#[path = "fleet/growth.rs"]
mod growth;
mod line;
#[path = "fleet/measure.rs"]
mod measure;
#[path = "fleet/plot.rs"]
mod plot;
#[path = "process.rs"]
mod process;
#[path = "fleet/replay.rs"]
mod replay;

use std::process::Command;
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Cluster, Options, Persona};
use serde_json::{Value, json};

use crate::counted::{Counter, Counts};
use crate::measure::{Cost, Server, measured};

const NODES: usize = 1000;
const PODS: usize = 8000;
/// Runs of each command, of which the middle one is shown.
const RUNS: usize = 7;

/// As a device plugin and kubelets of a real cluster make them: with owners, volumes, conditions and managed fields.
fn pod(index: usize) -> Value {
    let name = format!("p-{index:07}");
    let resources = json!({"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}, "requests": {"cpu": "8", "memory": "64Gi"}});
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

fn fill(cluster: &Cluster) {
    let admin = cluster.kubectl(Persona::Admin);
    let product = Some(("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"));
    let fleet: Vec<Value> = (0..NODES).map(|index| node(&format!("n-{index:05}"), product, &[("nvidia.com/gpu", 8)])).collect();
    for part in fleet.chunks(250) {
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": part}));
    }
    for team in 0..10 {
        admin.run(&["create", "namespace", &format!("team-{team}")]);
    }
    let pods: Vec<Value> = (0..PODS).map(pod).collect();
    for part in pods.chunks(1000) {
        admin.run_with(&["create", "-f", "-"], &json!({"apiVersion": "v1", "kind": "List", "items": part}).to_string());
    }
    let end = Instant::now() + Duration::from_secs(900);
    loop {
        let waiting = admin.run(&["get", "pods", "-A", "--field-selector", "status.phase=Pending", "-o", "name"]).lines().count();
        if waiting == 0 {
            return;
        }
        assert!(Instant::now() < end, "{waiting} pods never run");
        std::thread::sleep(Duration::from_secs(3));
    }
}

/// What is compared, by the name under which it is shown.
fn contestants(cluster: &Cluster, server: &str, token: &str) -> Vec<(String, Vec<String>)> {
    let curl = |accept: &str, path: &str| {
        let words = ["curl", "-sSfk", "-o", "/dev/null", "-H", &format!("Authorization: Bearer {token}"), "-H", accept];
        words.iter().map(|word| (*word).to_owned()).chain([format!("{server}{path}")]).collect()
    };
    let words =
        |program: &str, line: &str| std::iter::once(program).chain(line.split(' ')).map(ToOwned::to_owned).collect::<Vec<_>>();
    let gpuctl = |line: &str| (format!("gpuctl {line}"), words(env!("CARGO_BIN_EXE_gpuctl"), line));
    let kubectl = |line: &str| (format!("kubectl {line}"), words(&cluster.binary("kubectl").display().to_string(), line));
    let mut all = vec![
        ("curl, all pods as JSON".to_owned(), curl("Accept: application/json", "/api/v1/pods")),
        ("curl, all pods as protobuf".to_owned(), curl("Accept: application/vnd.kubernetes.protobuf", "/api/v1/pods")),
        gpuctl("get nodes"),
        gpuctl("get pools"),
        gpuctl("get overview"),
        gpuctl("get workloads"),
        gpuctl("get jobs -A"),
        gpuctl("free"),
        kubectl("get pods -A"),
        kubectl("get nodes"),
    ];
    let allocations = words("kubectl-view-allocations", "-r gpu");
    match Command::new(&allocations[0]).arg("--version").output() {
        Ok(_) => all.push(("kubectl-view-allocations -r gpu".to_owned(), allocations)),
        Err(_) => println!("kubectl-view-allocations is not in PATH: `cargo install kubectl-view-allocations`"),
    }
    all
}

fn main() {
    if std::env::args().any(|argument| argument == "plot") {
        plot::draw();
        return;
    }
    let cluster = Cluster::start(&Options::default()).expect("the cluster starts");
    if std::env::args().any(|argument| argument == "grow") {
        growth::show(&cluster, &replay::Sample::small(&cluster));
        return;
    }
    fill(&cluster);
    let server = Server::of(&cluster);
    let counter = Counter::of(&cluster);
    let counted = contestants(&cluster, &counter.server, &counter.token);
    let contestants = contestants(&cluster, &cluster.api_server(), &cluster.token(Persona::Admin));
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); contestants.len()];
    // In turn, so that what else the machine does weighs on all.
    for run in 0..=RUNS {
        for (place, (_, words)) in contestants.iter().enumerate() {
            let before = server.cpu();
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).env("KUBECONFIG", cluster.kubeconfig(Persona::Admin)).env("GPUCTL_PROMETHEUS", "none");
            let cost = measured(&mut command);
            let cost = Cost { server: server.cpu().saturating_sub(before), ..cost };
            // The first fills caches.
            if run > 0 {
                costs[place].push(cost);
            }
        }
    }
    println!("{NODES} nodes, {PODS} pods, the middle of {RUNS} runs");
    println!(
        "| | time, ms | CPU, ms | peak, MiB | CPU of the API server, ms | requests | MB |\n|---|---:|---:|---:|---:|---:|---:|"
    );
    for ((name, words), mut of_one) in counted.iter().zip(costs) {
        of_one.sort_by_key(|cost| cost.wall);
        let Cost { wall, cpu, peak, server } = of_one[of_one.len() / 2];
        let Counts { requests, bytes } =
            counter.counts(Command::new(&words[0]).args(&words[1..]).env("GPUCTL_PROMETHEUS", "none"));
        println!(
            "| `{name}` | {} | {} | {peak:.0} | {} | {requests} | {:.1} |",
            wall.as_millis(),
            cpu.as_millis(),
            server.as_millis(),
            bytes as f64 / 1e6
        );
    }
    // The cockpit is looked at while pods end, that of the sample first.
    let sample = replay::Sample::of(&cluster);
    cockpit::show(&cluster, &server);
    growth::show(&cluster, &sample);
}
