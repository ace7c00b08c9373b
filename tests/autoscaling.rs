//! A real autoscaler on real GPU figures: exporter, Prometheus, prometheus-adapter with the rules of `examples/autoscaling`,
//! the custom metrics API, the HPA controller, and a Deployment that follows the load. A cluster of its own.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona};
use serde_json::{Value, json};

/// dcgm-exporter's format: each pod of the list has one GPU with the load of the moment, and one GPU reports nonsense.
struct Exporter {
    port: u16,
    pods: Arc<Mutex<Vec<String>>>,
    load: Arc<AtomicU32>,
}

impl Exporter {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // The adapter offers a metric once a pod has had it.
        let pods: Arc<Mutex<Vec<String>>> = Arc::new(Mutex::new(vec!["earlier".to_owned()]));
        let load = Arc::new(AtomicU32::new(50));
        let (named, loaded) = (Arc::clone(&pods), Arc::clone(&load));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    line.clear();
                }
                let body = text(&named.lock().unwrap(), loaded.load(Ordering::SeqCst));
                let mut stream = stream;
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        Self { port, pods, load }
    }
}

fn text(pods: &[String], load: u32) -> String {
    let mut text = String::new();
    for (name, help) in [
        ("GPU_UTIL", "GPU utilization (in %)."),
        ("FB_USED", "Framebuffer memory used (in MiB)."),
        ("FB_FREE", "Framebuffer memory free (in MiB)."),
    ] {
        text.push_str(&format!("# HELP DCGM_FI_DEV_{name} {help}\n# TYPE DCGM_FI_DEV_{name} gauge\n"));
        for (index, pod) in pods.iter().enumerate() {
            let value = match name {
                "GPU_UTIL" => load,
                "FB_USED" => 6000,
                _ => 18000,
            };
            let labels = |gpu: usize| {
                format!(
                    "gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",device=\"nvidia{gpu}\",modelName=\"NVIDIA A10\",Hostname=\"gpu-1\",container=\"main\",namespace=\"scale\",pod=\"{pod}\""
                )
            };
            text.push_str(&format!("DCGM_FI_DEV_{name}{{{}}} {value}\n", labels(index)));
            if name == "GPU_UTIL" {
                // A sentinel that must not raise the mean.
                text.push_str(&format!("DCGM_FI_DEV_{name}{{{}}} 2147483632\n", labels(index + 100)));
            }
        }
    }
    text
}

const SERVICE: &str = "kind: inference
version: v0.1
job: {name: web}
environment: {image: tgi}
service: {replicas: 2, port: 80}
resources: {pool: scale, gpu: 1}
autoscaling: {minReplicas: 1, maxReplicas: 4, targetGPUUtilization: 70, targetMemoryUtilization: 85}
";

#[test]
fn replicas_follow_the_utilization_of_the_gpus() {
    let exporter = Exporter::start();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/autoscaling/prometheus-adapter.yaml");
    let options = Options {
        with_adapter: true,
        adapter_rules: Some(rules),
        exporters: vec![format!("127.0.0.1:{}", exporter.port)],
        ..Options::default()
    };
    let cluster = Cluster::start(&options).unwrap_or_else(|error| panic!("{error:#}"));
    cluster
        .add_nodes(&[in_pool(node("gpu-1", Some(("nvidia.com/gpu.product", "NVIDIA-A10")), &[("nvidia.com/gpu", 8)]), "scale")]);
    let admin = cluster.kubectl(Persona::Admin);
    admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "scale"}}));
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let list: Value = serde_json::from_str(&admin.run(&["get", "--raw", "/apis/custom.metrics.k8s.io/v1beta1"])).unwrap();
        let has = |name: &str| list["resources"].as_array().into_iter().flatten().any(|one| one["name"] == name);
        if has("pods/gpu_utilization") && has("pods/gpu_memory_utilization") {
            break;
        }
        assert!(Instant::now() < end, "the adapter never served them: {list:#}");
        std::thread::sleep(Duration::from_millis(300));
    }
    let gpuctl = |arguments: &[&str], input: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gpuctl"))
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(["-n", "scale"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{err}");
        (String::from_utf8(output.stdout).unwrap(), err)
    };
    let (_, err) = gpuctl(&["create", "-f", "-"], SERVICE);
    assert_eq!(err, "", "nothing to warn of: both metrics are served");
    // Waits until the service has as many ready pods, and every pod has its load.
    let until = |replicas: u64| {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let (out, _) = gpuctl(&["describe", "job", "web", "-o", "json"], "");
            let job: Value = serde_json::from_str(&out).unwrap();
            let pods = job["pods"].as_array().unwrap();
            *exporter.pods.lock().unwrap() = pods.iter().map(|pod| pod["name"].as_str().unwrap().to_owned()).collect();
            let ready = pods.iter().filter(|pod| pod["ready"] == true).count() as u64;
            if ready == replicas && pods.len() as u64 == replicas && job["resources"]["nodeCount"] == replicas {
                return job;
            }
            assert!(Instant::now() < end, "never {replicas} replicas: {:#}\n{pods:#?}", job["autoscaling"]);
            std::thread::sleep(Duration::from_millis(500));
        }
    };
    exporter.load.store(95, Ordering::SeqCst);
    let job = until(4);
    let metrics = &job["autoscaling"]["metrics"];
    assert_eq!(metrics[0]["metric"], "gpu_utilization");
    assert_eq!(metrics[0]["currentPercent"], 95.0, "the mean of the devices that tell the truth: {metrics:#}");
    // 6000 of 6000 + 18000 MiB.
    assert_eq!(metrics[1]["currentPercent"], 25.0, "{metrics:#}");
    exporter.load.store(5, Ordering::SeqCst);
    let job = until(1);
    assert_eq!((&job["status"], &job["resources"]["gpuTotal"]), (&json!("running"), &json!(1)));
}
