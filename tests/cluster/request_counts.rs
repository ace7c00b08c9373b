//! Counts the requests of commands that wait, because two hundred users may wait at the same time.
//! The test has its own cluster, so that it does not count the requests of other tests.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Cluster, Options, Persona};

use crate::runner::{finish, gpuctl, run};

const JOB_RESOURCES: [&str; 6] = [
    "jobs",
    "pods",
    "deployments",
    "statefulsets",
    "events",
    "services",
];
const CLUSTER_RESOURCES: [&str; 6] = [
    "nodes",
    "resourceslices",
    "resourceclaims",
    "replicasets",
    "daemonsets",
    "cronjobs",
];

/// Returns the number of LIST requests for these resources that the API server has answered.
/// Controllers use watches instead, so all these requests come from gpuctl.
fn lists(cluster: &Cluster, resources: &[&str]) -> u64 {
    let text = cluster
        .kubectl(Persona::Admin)
        .run(&["get", "--raw", "/metrics"]);
    let is_list = |line: &&str| {
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
    text.lines().filter(is_list).map(count).sum()
}

/// Sends each line that a child prints.
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
fn waiting_costs_few_requests_and_shows_changes_immediately() {
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
    // The first job uses all eight GPUs, so the next one is pending. The command times out even
    // though nothing changes.
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
    let job_lines = lines(&mut watcher);
    // A user with rights in one namespace also watches.
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
    // Other commands watch nodes, pools, consumers and workloads.
    let mut watchers: Vec<Child> = ["nodes", "pools", "consumers", "workloads"]
        .into_iter()
        .map(|what| {
            command(&["get", what, "-w", "-o", "json"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let node_lines = lines(&mut watchers[0]);
    // The first lists of each command are not counted.
    std::thread::sleep(Duration::from_secs(12));
    let count = || {
        (
            lists(&cluster, &JOB_RESOURCES),
            lists(&cluster, &CLUSTER_RESOURCES),
        )
    };
    let before = count();
    std::thread::sleep(Duration::from_secs(40));
    let after = count();
    // Seven commands may send 140 lists in 40 s, because each may send at most thirty per minute.
    // The inventory is read at most once a minute.
    let (job_lists, cluster_lists) = (after.0 - before.0, after.1 - before.1);
    assert!(
        (3..=140).contains(&job_lists),
        "{job_lists} lists of jobs and pods in 40 s"
    );
    assert!(
        cluster_lists <= 4 * CLUSTER_RESOURCES.len() as u64,
        "{cluster_lists} lists of nodes and owners in 40 s"
    );
    // A change is shown immediately.
    while node_lines.try_recv().is_ok() {}
    cluster.kubectl(Persona::Admin).run(&["cordon", "only"]);
    let cordoned = Instant::now();
    let is_cordoned = |line: &str| line.contains(r#""status":"maintaining""#);
    while !is_cordoned(
        &node_lines
            .recv_timeout(Duration::from_secs(20))
            .expect("the watch shows the node"),
    ) {}
    assert!(
        cordoned.elapsed() < Duration::from_secs(8),
        "{:?} until the watch showed the node",
        cordoned.elapsed()
    );
    cluster.kubectl(Persona::Admin).run(&["uncordon", "only"]);
    for mut watching in watchers.into_iter().chain([grace]) {
        watching.kill().unwrap();
        watching.wait().unwrap();
    }
    run(command(&["delete", "job", "first"]), "").ok();
    let free = Instant::now();
    let answer = finish(waiter, Duration::from_secs(60)).ok().json();
    assert_eq!(answer["status"], "running", "{answer:#}");
    // The watch of jobs shows it too.
    let is_second_running =
        |line: &str| line.contains(r#""jobId":"second""#) && line.contains(r#""status":"running""#);
    while !is_second_running(
        &job_lines
            .recv_timeout(Duration::from_secs(20))
            .expect("the watch shows the second job"),
    ) {}
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    assert!(
        free.elapsed() < Duration::from_secs(10),
        "{:?} until the waiting command saw its job run",
        free.elapsed()
    );
}
