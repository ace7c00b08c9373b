//! Compares gpuctl's commands with kubectl and with plain API requests on one test cluster. `cargo
//! bench` starts the cluster and prints medians, which takes about a minute. No timing makes it
//! fail.
#![expect(clippy::disallowed_macros, reason = "a benchmark prints its results")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark writes the files that it needs"
)]

mod line;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::exporter::Exporter;
use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Cluster, Options, Persona, load};
use serde_json::{Value, json};

const RUNS: usize = 25;
const JOBS: usize = 200;
const NODES: usize = 125;

/// Returns the median duration of `RUNS` runs, after a warm-up run.
fn median(command: &mut Command) -> Duration {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut times: Vec<Duration> = (0..=RUNS)
        .map(|_| {
            let start = Instant::now();
            let status = command.status().expect("the command starts");
            assert!(status.success(), "{command:?} failed");
            start.elapsed()
        })
        .skip(1)
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn show(label: &str, time: Duration) {
    println!("{label:<58} {:>8.1} ms", time.as_secs_f64() * 1000.0);
}

/// Measures how long the server takes to answer sequential requests for `paths`. `kubectl proxy`
/// keeps its connections open, so no process start or TLS handshake is included.
fn server_time(cluster: &Cluster, paths: &[String]) -> Duration {
    let mut proxy = Command::new(cluster.binary("kubectl"))
        .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
        .args(["proxy", "--port", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    let mut line = String::new();
    BufReader::new(proxy.stdout.take().expect("stdout is piped"))
        .read_line(&mut line)
        .expect("kubectl proxy prints its port");
    let address = line
        .trim()
        .rsplit(' ')
        .next()
        .expect("an address")
        .to_owned();
    let request = |path: &String| {
        let mut stream = TcpStream::connect(&address).expect("the proxy listens");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("the proxy reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the proxy answers");
        assert!(
            answer.starts_with(b"HTTP/1.0 200"),
            "{}",
            String::from_utf8_lossy(&answer[..100])
        );
    };
    let mut times: Vec<Duration> = (0..=RUNS)
        .map(|_| {
            let start = Instant::now();
            paths.iter().for_each(request);
            start.elapsed()
        })
        .skip(1)
        .collect();
    let _ = proxy.kill();
    let _ = proxy.wait();
    times.sort_unstable();
    times[times.len() / 2]
}

/// A job like gpuctl creates it, but suspended, so that its pods do not load the cluster during the
/// measurement.
fn job(index: usize) -> Value {
    let labels = json!({"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/job": format!("job-{index}"), "gpuctl/kind": "training"});
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": format!("job-{index}"), "namespace": "default", "labels": labels},
        "spec": {"suspend": true, "completionMode": "Indexed", "completions": 1, "parallelism": 1, "template": {
            "metadata": {"labels": labels},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        }},
    })
}

/// Number of services that each program creates.
const DOCUMENTS: usize = 100;
/// How often each program runs. The programs alternate, and each run uses a new namespace.
const CREATES: usize = 5;

/// Measures how long gpuctl takes to create a hundred services without pods, and how long kubectl
/// takes to create the same objects. The connection delays every response by `round_trip`.
fn measure_creates(cluster: &Cluster, round_trip: Duration) {
    let document = |index: usize| {
        format!(
            "kind: compute\nversion: v0.1\njob: {{name: s-{index}}}\nenvironment: {{image: 'busybox:1'}}\nservice: {{replicas: 0, port: 80}}\n"
        )
    };
    let documents = cluster.folder().join("hundred.yaml");
    fs::write(
        &documents,
        (0..DOCUMENTS)
            .map(document)
            .collect::<Vec<_>>()
            .join("---\n"),
    )
    .expect("the documents can be written");
    let server = cluster.api_server();
    let line = line::open(
        server.trim_start_matches("https://"),
        round_trip / 2,
        &Arc::default(),
    );
    let kubeconfig = cluster.folder().join("line.kubeconfig");
    let original = fs::read_to_string(cluster.kubeconfig(Persona::Admin))
        .expect("the persona has a kubeconfig");
    fs::write(
        &kubeconfig,
        original.replace(&server, &format!("https://{line}")),
    )
    .expect("the folder is writable");
    let gpuctl = |namespace: &str, options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        command
            .env("KUBECONFIG", &kubeconfig)
            .env("GPUCTL_PROMETHEUS", "none");
        command
            .args(["create", "-n", namespace, "-f"])
            .arg(&documents)
            .args(options)
            .stdin(Stdio::null());
        command
    };
    let timed = |command: &mut Command| {
        let start = Instant::now();
        let status = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("the command starts");
        assert!(status.success(), "{command:?} failed");
        start.elapsed()
    };
    let admin = cluster.kubectl(Persona::Admin);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for run in 0..CREATES {
        let (for_gpuctl, for_kubectl) = (format!("gpuctl-{run}"), format!("kubectl-{run}"));
        let namespaces = [&for_gpuctl, &for_kubectl];
        for namespace in namespaces {
            admin.run(&["create", "namespace", namespace]);
        }
        let objects = gpuctl(&for_kubectl, &["--dry-run=client", "-o", "yaml"])
            .output()
            .expect("gpuctl starts");
        assert!(
            objects.status.success(),
            "{}",
            String::from_utf8_lossy(&objects.stderr)
        );
        let file = cluster.folder().join(format!("{for_kubectl}.yaml"));
        fs::write(&file, objects.stdout).expect("the objects can be written");
        times[0].push(timed(&mut gpuctl(&for_gpuctl, &["--dry-run=server"])));
        times[1].push(timed(&mut gpuctl(&for_gpuctl, &[])));
        // Let the controllers finish with the new objects. Otherwise they slow down the next
        // program.
        thread::sleep(REST);
        let mut kubectl = Command::new(cluster.binary("kubectl"));
        kubectl
            .env("KUBECONFIG", &kubeconfig)
            .args(["create", "-f"])
            .arg(&file);
        times[2].push(timed(&mut kubectl));
        for namespace in namespaces {
            admin.run(&["delete", "namespace", namespace]);
        }
    }
    println!(
        "\n{DOCUMENTS} documents, {} ms of round-trip delay, medians of {CREATES} runs\n",
        round_trip.as_millis()
    );
    let labels = [
        "gpuctl create -f --dry-run=server",
        "gpuctl create -f (validates all before it writes)",
        "kubectl create -f, the same objects",
    ];
    for (label, mut times) in labels.into_iter().zip(times) {
        times.sort_unstable();
        show(label, times[CREATES / 2]);
    }
}

/// Pause after each run.
const REST: Duration = Duration::from_secs(5);

fn main() {
    let exporter = Exporter::start().expect("a port is free");
    let options = Options {
        exporters: vec![exporter.address()],
        ..Options::default()
    };
    let cluster = Cluster::start(&options).expect("the sandbox starts");
    let product = Some(("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"));
    let nodes: Vec<Value> = (0..NODES)
        .map(|index| node(&format!("gpu-{index}"), product, &[("nvidia.com/gpu", 8)]))
        .collect();
    cluster.add_nodes(&nodes);
    exporter.change(|fleet| fleet.gpus = load::devices(&nodes));
    let admin = cluster.kubectl(Persona::Admin);
    let jobs: Vec<Value> = (0..JOBS).map(job).collect();
    admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": jobs}));

    let kubeconfig = cluster.kubeconfig(Persona::Admin);
    let gpuctl = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        command
            .env("KUBECONFIG", &kubeconfig)
            .env("GPUCTL_PROMETHEUS", "none")
            .args(arguments);
        median(&mut command)
    };
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new(cluster.binary("kubectl"));
        command.env("KUBECONFIG", &kubeconfig).args(arguments);
        median(&mut command)
    };
    println!("medians of {RUNS} runs, {JOBS} jobs, everything on one machine\n");
    show("gpuctl --version", gpuctl(&["--version"]));
    show(
        "kubectl version --client",
        kubectl(&["version", "--client"]),
    );
    let selector = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dgpuctl&limit=500";
    let lists = [
        format!("/apis/batch/v1/jobs?{selector}"),
        format!("/api/v1/pods?{selector}"),
    ];
    let server = server_time(&cluster, &lists);
    let list = gpuctl(&["get", "jobs", "--no-progress"]);
    show("only the two lists, on an open connection", server);
    show("gpuctl get jobs --no-progress", list);
    show(
        "  difference to the server's time",
        list.saturating_sub(server),
    );
    show(
        "kubectl get jobs -A -l … (without pods or states)",
        kubectl(&[
            "get",
            "jobs",
            "-A",
            "-l",
            "app.kubernetes.io/managed-by=gpuctl",
        ]),
    );

    for milliseconds in [0, 20] {
        measure_creates(&cluster, Duration::from_millis(milliseconds));
    }

    println!("\n{} devices on {NODES} nodes\n", NODES * 8);
    let prometheus = cluster.prometheus();
    let promtool = |query: &str| {
        let mut command = Command::new(cluster.binary("promtool"));
        median(command.args(["query", "instant", &prometheus, query]))
    };
    show(
        "gpuctl get heatmap (eleven metrics of each device)",
        gpuctl(&["--prometheus", &prometheus, "get", "heatmap"]),
    );
    show(
        "promtool query instant (only utilization)",
        promtool("DCGM_FI_DEV_GPU_UTIL"),
    );
    show(
        "gpuctl get overview",
        gpuctl(&["--prometheus", &prometheus, "get", "overview"]),
    );
    show(
        "gpuctl get nodes, without metrics",
        gpuctl(&["get", "nodes"]),
    );
    show(
        "gpuctl get nodes, with metrics",
        gpuctl(&["--prometheus", &prometheus, "get", "nodes"]),
    );
    show(
        "kubectl get nodes (without GPUs)",
        kubectl(&["get", "nodes"]),
    );
}
