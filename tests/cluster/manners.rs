//! How often waiting commands ask the API server: two hundred people wait at the same time. A
//! cluster of its own, whose every request is counted.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Cluster, Options, Persona};

use crate::runner::{finish, gpuctl, run};

const OF_JOBS: [&str; 6] = [
    "jobs",
    "pods",
    "deployments",
    "statefulsets",
    "events",
    "services",
];
const OF_CLUSTER: [&str; 6] = [
    "nodes",
    "resourceslices",
    "resourceclaims",
    "replicasets",
    "daemonsets",
    "cronjobs",
];

/// Lists of these resources that the API server has answered. Controllers watch, so they are
/// gpuctl's.
fn lists(cluster: &Cluster, resources: &[&str]) -> u64 {
    let text = cluster
        .kubectl(Persona::Admin)
        .run(&["get", "--raw", "/metrics"]);
    let of_jobs = |line: &&str| {
        line.starts_with("apiserver_request_total{")
            && line.contains("verb=\"LIST\"")
            && resources
                .iter()
                .any(|resource| line.contains(&format!("resource=\"{resource}\"")))
    };
    let count = |line: &str| {
        line.rsplit(' ')
            .next()
            .and_then(|number| number.parse::<u64>().ok())
            .unwrap_or(0)
    };
    text.lines().filter(of_jobs).map(count).sum()
}

/// What a child prints, line by line.
fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = std::sync::mpsc::channel();
    let stdout = child.stdout.take().expect("stdout is piped");
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}

#[test]
fn waiting_costs_few_requests_and_hears_of_changes_at_once() {
    let cluster = Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
    let product = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
    cluster.add_nodes(&[node("only", Some(product), &[("nvidia.com/gpu", 8)])]);
    let file = |name: &str, gpus: u32| {
        let path = cluster.folder().join(format!("{name}.yaml"));
        let yaml = format!(
            "kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: busybox}}\nresources: {{gpu: {gpus}}}\n"
        );
        std::fs::write(&path, yaml).unwrap();
        path.display().to_string()
    };
    let command = |arguments: &[&str]| {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        command
    };
    run(
        command(&[
            "create",
            "-f",
            &file("first", 8),
            "--wait",
            "--timeout",
            "60s",
        ]),
        "",
    )
    .ok();
    // Eight GPUs are there, so whoever comes next waits; a deadline is kept though nothing changes.
    let started = Instant::now();
    let hurried = run(
        command(&[
            "create",
            "-f",
            &file("third", 8),
            "--wait",
            "--timeout",
            "3s",
        ]),
        "",
    )
    .exits(7);
    hurried.says("timed out after 3 s: job `third` is pending Unschedulable");
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    run(command(&["delete", "job", "third"]), "").ok();
    let mut waiter = command(&[
        "create",
        "-f",
        &file("second", 8),
        "--wait",
        "--timeout",
        "120s",
        "-o",
        "json",
    ]);
    let waiter = waiter
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut watcher = command(&["get", "jobs", "-w", "-o", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let of_watched_jobs = lines(&mut watcher);
    // So does somebody who may see one namespace only.
    cluster.kubectl(Persona::Admin).run(&[
        "create",
        "rolebinding",
        "grace",
        "--clusterrole=view",
        "--user=grace",
        "-n",
        "default",
    ]);
    let mut one_namespace = command(&["get", "jobs", "-w", "-o", "json"]);
    one_namespace
        .env("KUBECONFIG", cluster.kubeconfig(Persona::Grace))
        .stdin(Stdio::null());
    let grace = one_namespace
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // And those who watch nodes, pools, and everybody's workloads.
    let mut others: Vec<Child> = ["nodes", "pools", "consumers", "workloads"]
        .into_iter()
        .map(|what| {
            command(&["get", what, "-w", "-o", "json"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let of_nodes = lines(&mut others[0]);
    std::thread::sleep(Duration::from_secs(12));
    let count = || (lists(&cluster, &OF_JOBS), lists(&cluster, &OF_CLUSTER));
    let before = count();
    std::thread::sleep(Duration::from_secs(40));
    let after = count();
    // Forty seconds of seven commands; a minute of each may cost thirty. The inventory is read
    // again once a minute at most.
    let (of_jobs, of_cluster) = (after.0 - before.0, after.1 - before.1);
    assert!(
        (3..=140).contains(&of_jobs),
        "{of_jobs} lists of jobs and pods in 40 s"
    );
    assert!(
        of_cluster <= 4 * OF_CLUSTER.len() as u64,
        "{of_cluster} lists of nodes and owners in 40 s"
    );
    // What changes is heard of at once.
    while of_nodes.try_recv().is_ok() {}
    cluster.kubectl(Persona::Admin).run(&["cordon", "only"]);
    let cordoned = Instant::now();
    let is_cordoned = |line: &str| line.contains(r#""status":"maintaining""#);
    while !is_cordoned(
        &of_nodes
            .recv_timeout(Duration::from_secs(20))
            .expect("the watch tells of the node"),
    ) {}
    assert!(
        cordoned.elapsed() < Duration::from_secs(8),
        "{:?} until the node was told of",
        cordoned.elapsed()
    );
    cluster.kubectl(Persona::Admin).run(&["uncordon", "only"]);
    for mut other in others.into_iter().chain([grace]) {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    run(command(&["delete", "job", "first"]), "").ok();
    let free = Instant::now();
    let answer = finish(waiter, Duration::from_secs(60)).ok().json();
    assert_eq!(answer["status"], "running", "{answer:#}");
    // Whoever watches the list sees it, too.
    let of_second =
        |line: &str| line.contains(r#""jobId":"second""#) && line.contains(r#""status":"running""#);
    while !of_second(
        &of_watched_jobs
            .recv_timeout(Duration::from_secs(20))
            .expect("the watch tells of it"),
    ) {}
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    assert!(
        free.elapsed() < Duration::from_secs(10),
        "{:?} until the waiter heard of it",
        free.elapsed()
    );
}
