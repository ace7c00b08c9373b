//! The commands that `cargo sandbox` demonstrates: gpuctl's main commands, on the project's
//! examples.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use gpuctl_sandbox::{Cluster, Persona, PodLog};

/// The project's root folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds gpuctl and returns its path. `GPUCTL_SANDBOX_PROGRAM` selects an existing binary instead.
pub fn build_gpuctl() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("GPUCTL_SANDBOX_PROGRAM") {
        return Ok(PathBuf::from(program));
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut child = Command::new(cargo)
        .current_dir(root())
        .args([
            "build",
            "--bin",
            "gpuctl",
            "--message-format",
            "json-render-diagnostics",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let mut binary = None;
    for line in BufReader::new(child.stdout.take().expect("stdout is piped"))
        .lines()
        .map_while(Result::ok)
    {
        let message: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        if message["target"]["name"] == "gpuctl"
            && let Some(path) = message["executable"].as_str()
        {
            binary = Some(PathBuf::from(path));
        }
    }
    if !child.wait()?.success() {
        bail!("the build of gpuctl failed");
    }
    binary.context("cargo did not report a gpuctl binary")
}

/// Runs the tour, and stops at the first command that fails.
pub fn show(gpuctl: &Path, kubeconfig: &Path) -> Result<()> {
    play(
        gpuctl,
        kubeconfig,
        &[
            &[
                "create",
                "-f",
                "examples/training.yaml",
                "--wait",
                "--timeout",
                "1m",
            ][..],
            &[
                "create",
                "-f",
                "examples/training-two-nodes.yaml",
                "--wait",
                "--timeout",
                "1m",
            ],
            &[
                "create",
                "secret",
                "data-prep",
                "--from-env",
                "token=JUPYTER_TOKEN",
            ],
            &[
                "create",
                "-f",
                "examples/inference.yaml",
                "-f",
                "examples/notebook.yaml",
                "--wait",
                "--timeout",
                "1m",
            ],
            &["get", "jobs"],
            &["describe", "job", "qwen2-7b-sft"],
            &["logs", "qwen2-7b-sft", "--tail", "5"],
            &["scale", "llama3-8b", "--replicas", "3"],
            &["pause", "job", "data-prep"],
            &["get", "jobs", "--kind", "notebook"],
            &["resume", "job", "data-prep"],
            &[
                "create",
                "-f",
                "examples/pool.yaml",
                "-f",
                "examples/quota.yaml",
            ],
            &["get", "nodes"],
            &["get", "pools"],
            &["get", "quotas"],
            &["get", "overview"],
            &["get", "heatmap"],
            &[
                "get",
                "metrics",
                "job",
                "qwen2-7b-sft",
                "--metric",
                "gpuUtilization",
                "--start",
                "1m",
                "--step",
                "1",
            ],
        ],
    )
}

/// Runs a training in real containers on the real node.
pub fn show_real(gpuctl: &Path, kubeconfig: &Path) -> Result<()> {
    let file = kubeconfig.with_file_name("real-training.yaml");
    std::fs::write(&file, REAL_TRAINING)?;
    let file = file.display().to_string();
    let copy = kubeconfig
        .with_file_name("checkpoint")
        .display()
        .to_string();
    play(
        gpuctl,
        kubeconfig,
        &[
            &["create", "-f", &file, "--wait", "--timeout", "1m"],
            &["logs", "line-fit", "--tail", "5"],
            &[
                "exec",
                "line-fit",
                "--",
                "sh",
                "-c",
                "echo on $(cat /etc/hostname) with $NVIDIA_VISIBLE_DEVICES",
            ],
            &["cp", "line-fit:/tmp/checkpoints/checkpoint", &copy],
            &["logs", "line-fit", "--follow", "--tail", "3"],
            &["describe", "job", "line-fit"],
        ],
    )
}

const REAL_TRAINING: &str = "\
kind: training
version: v0.1
job: {name: line-fit}
environment:
  image: toolbox:1
  command: [train, --steps, \"400\", --pause, 50ms]
resources: {pool: real, gpu: 2}
";

fn play(gpuctl: &Path, kubeconfig: &Path, commands: &[&[&str]]) -> Result<()> {
    let root = root();
    for arguments in commands {
        println!("$ gpuctl {}", arguments.join(" "));
        std::io::stdout().flush()?;
        if arguments[0] == "logs" || arguments[0] == "get" {
            // It takes time until the simulated training has logs and metrics.
            thread::sleep(Duration::from_secs(3));
        }
        let mut command = Command::new(gpuctl);
        command
            .current_dir(&root)
            .env("KUBECONFIG", kubeconfig)
            .env("JUPYTER_TOKEN", "sandbox")
            .args(*arguments);
        let status = command.status()?;
        if !status.success() {
            bail!("`gpuctl {}` failed", arguments.join(" "));
        }
        println!();
    }
    Ok(())
}

/// Writes one log line per second for every running training, until the sandbox ends.
pub fn write_logs(cluster: &Cluster) -> Result<()> {
    let kubectl = cluster.kubectl(Persona::Admin);
    let mut logs: BTreeMap<(String, String), (PodLog, u32)> = BTreeMap::new();
    loop {
        let output = kubectl.try_run(
            &[
                "get",
                "pods",
                "-A",
                "-l",
                "gpuctl/kind=training",
                "--field-selector",
                "status.phase=Running",
                "-o",
                "json",
            ],
            "",
        );
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let mut present = Vec::new();
        for pod in list["items"].as_array().into_iter().flatten() {
            let text = |pointer: &str| {
                pod.pointer(pointer)
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            // Containers on a real node write their own logs.
            if text("/spec/nodeName").starts_with("gpu-real-") {
                continue;
            }
            let key = (text("/metadata/namespace"), text("/metadata/name"));
            present.push(key.clone());
            let (log, step) = logs.entry(key).or_insert_with_key(|(namespace, name)| {
                (cluster.pod_log(namespace, name, "main"), 0)
            });
            // Starts over after the last step, because the sandbox runs longer than the training.
            *step = *step % 5000 + 10;
            let loss = 2.4 / (1.0 + f64::from(*step) / 300.0) + 0.6;
            log.say(&format!(
                "[INFO] step {step}/5000 loss={loss:.3} lr=2.0e-05 tokens/s=245"
            ));
        }
        logs.retain(|key, _| present.contains(key));
        thread::sleep(Duration::from_secs(1));
    }
}

/// Metrics of a storage cluster, and of InfiniBand ports as node-exporter reports them.
pub fn machines() -> String {
    let mut text = String::from(
        "# TYPE ceph_cluster_total_bytes gauge\nceph_cluster_total_bytes 1e15\n# TYPE ceph_cluster_total_used_bytes gauge\nceph_cluster_total_used_bytes 4.5e14\n",
    );
    for (name, value) in [
        ("node_infiniband_state_id", "4"),
        ("node_infiniband_rate_bytes_per_second", "5e+10"),
    ] {
        text.push_str(&format!("# TYPE {name} gauge\n"));
        for node in ["gpu-a-01", "gpu-a-02", "gpu-h-01", "gpu-h-02"] {
            for port in 0..4 {
                let down = name.ends_with("state_id") && node == "gpu-h-02" && port == 3;
                let value = if down { "1" } else { value };
                text.push_str(&format!(
                    "{name}{{device=\"mlx5_{port}\",port=\"1\",node=\"{node}\"}} {value}\n"
                ));
            }
        }
    }
    text
}

/// Serves a page for simulated notebooks and services. Returns its port.
pub fn page() -> Result<u16> {
    const PAGE: &str = "<!doctype html><title>gpuctl sandbox</title><p>This pod is simulated: you came here through <code>gpuctl open</code>, the API server and its node.</p>\n";
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut request = BufReader::new(&stream);
                let mut line = String::new();
                while request.read_line(&mut line).is_ok_and(|read| read > 2) {
                    line.clear();
                }
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n",
                    PAGE.len()
                );
                // A client that has disconnected does not need the page.
                let _ = stream.write_all((head + PAGE).as_bytes());
            });
        }
    });
    Ok(port)
}
