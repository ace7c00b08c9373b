//! A real autoscaler on simulated GPU metrics: exporter, Prometheus, prometheus-adapter with the
//! rules that `gpuctl doctor` prints, the custom metrics API and the HPA controller. Deployments
//! follow the utilization or the memory of their GPUs, or the queue of their servers. The test has
//! its own cluster.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use gpuctl_sandbox::exporter::{Exporter, Gpu};
use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona, eventually};
use serde_json::{Value, json};

/// The load of each pod's device: its utilization in percent, and its used memory in MiB, out of
/// 24,000.
#[derive(Clone, Copy)]
struct Load {
    utilization: f64,
    used_mib: u64,
    device: Device,
    /// The number of requests queued at each pod.
    waiting: u32,
}

/// Kind of device, which decides the exporter and the metrics.
#[derive(Clone, Copy, PartialEq)]
enum Device {
    Nvidia,
    /// A MIG instance. Its utilization is the activity of the graphics engine.
    Mig,
    /// A device that AMD's exporter reports.
    Amd,
}

fn load(utilization: f64, used_mib: u64) -> Load {
    Load {
        utilization,
        used_mib,
        device: Device::Nvidia,
        waiting: 0,
    }
}

/// Exporters for NVIDIA and AMD devices, and one for the queues of model servers.
struct Exporters {
    nvidia: Exporter,
    amd: Exporter,
    servers: Exporter,
}

/// Gives each pod one device with this load. The exporters also report garbage samples, which the
/// rules must ignore.
fn set(exporters: &Exporters, pods: &[String], load: Load) {
    let gpu = |(index, pod): (u32, &String)| Gpu {
        node: "gpu-1".to_owned(),
        index,
        uuid: format!("GPU-{index}"),
        model: "NVIDIA A10".to_owned(),
        pods: vec![("scale".to_owned(), pod.clone(), "main".to_owned())],
        utilization: load.utilization,
        used_mib: load.used_mib,
        free_mib: 24_000 - load.used_mib,
        instance: (load.device == Device::Mig).then(|| ("1g.10gb".to_owned(), index + 1)),
        ..Gpu::default()
    };
    let gpus: Vec<Gpu> = (0..).zip(pods).map(gpu).collect();
    let (nvidia, amd) = if load.device == Device::Amd {
        (Vec::new(), gpus)
    } else {
        (gpus, Vec::new())
    };
    for (exporter, gpus) in [(&exporters.nvidia, nvidia), (&exporters.amd, amd)] {
        exporter.change(|fleet| (fleet.garbage, fleet.gpus) = (true, gpus));
    }
    let queue = |pod: &String| {
        format!(
            "vllm:num_requests_waiting{{namespace=\"scale\",pod=\"{pod}\",model_name=\"m\"}} {}\n",
            load.waiting
        )
    };
    exporters
        .servers
        .change(|fleet| fleet.extra = pods.iter().map(queue).collect());
}

fn service(name: &str, target: &str) -> String {
    format!(
        "kind: inference
version: v0.1
job: {{name: {name}}}
environment: {{image: tgi}}
service: {{replicas: 2, port: 80}}
resources: {{pool: scale, gpu: 1}}
autoscaling: {{minReplicas: 1, maxReplicas: 4, {target}}}
"
    )
}

#[test]
fn replicas_follow_gpu_metrics_and_queue_lengths() {
    let start = || Exporter::start().unwrap();
    let exporters = Exporters {
        nvidia: start(),
        amd: start(),
        servers: start(),
    };
    // The adapter lists a metric only after some pod has reported it.
    set(&exporters, &["earlier".to_owned()], load(50.0, 6000));
    let printed = Command::new(env!("CARGO_BIN_EXE_gpuctl"))
        .args(["doctor", "--adapter-rules"])
        .output()
        .unwrap();
    assert!(printed.status.success());
    let rules = std::env::temp_dir().join(format!("gpuctl-rules-{}.yaml", std::process::id()));
    std::fs::write(&rules, printed.stdout).unwrap();
    let options = Options {
        with_adapter: true,
        adapter_rules: Some(rules.clone()),
        exporters: vec![exporters.nvidia.address()],
        scrapes: vec![
            json!({"job_name": "amd", "metrics_path": "/metrics/amd", "static_configs": [{"targets": [exporters.amd.address()],
                "labels": {"namespace": "kube-amd-gpu", "pod": "exporter", "container": "exporter"}}]}),
            // Prometheus scrapes real servers as pods, so this job keeps their labels.
            json!({"job_name": "servers", "honor_labels": true, "static_configs": [{"targets": [exporters.servers.address()]}]}),
        ],
        ..Options::default()
    };
    let cluster = Cluster::start(&options).unwrap_or_else(|error| panic!("{error:#}"));
    std::fs::remove_file(rules).unwrap();
    cluster.add_nodes(&[in_pool(
        node(
            "gpu-1",
            Some(("nvidia.com/gpu.product", "NVIDIA-A10")),
            &[("nvidia.com/gpu", 8)],
        ),
        "scale",
    )]);
    let admin = cluster.kubectl(Persona::Admin);
    admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "scale"}}));
    let limit = Duration::from_secs(60);
    eventually("the adapter serves the metrics", limit, || {
        let list: Value = serde_json::from_str(&admin.run(&[
            "get",
            "--raw",
            "/apis/custom.metrics.k8s.io/v1beta1",
        ]))
        .unwrap();
        let has = |name: &str| {
            list["resources"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|one| one["name"] == name)
        };
        let metrics = [
            "pods/gpu_utilization",
            "pods/gpu_memory_utilization",
            "pods/inference_queue_length",
        ];
        if metrics.into_iter().all(has) {
            return Ok(());
        }
        Err(list)
    });
    let gpuctl = |arguments: &[&str], input: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gpuctl"))
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .env("GPUCTL_PROMETHEUS", cluster.prometheus())
            .args(["-n", "scale"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{err}");
        (String::from_utf8(output.stdout).unwrap(), err)
    };
    // Waits until the service has this number of ready pods, and gives each of its pods the same
    // load.
    let until = |name: &str, load: Load, replicas: u64| {
        let what = format!("{name} has {replicas} ready replicas");
        eventually(&what, Duration::from_secs(120), || {
            let (out, _) = gpuctl(&["describe", "job", name, "-o", "json"], "");
            let job: Value = serde_json::from_str(&out).unwrap();
            let pods = job["pods"].as_array().unwrap();
            let names: Vec<String> = pods
                .iter()
                .map(|pod| pod["name"].as_str().unwrap().to_owned())
                .collect();
            set(&exporters, &names, load);
            let ready = pods.iter().filter(|pod| pod["ready"] == true).count() as u64;
            if ready == replicas
                && pods.len() as u64 == replicas
                && job["resources"]["nodeCount"] == replicas
            {
                return Ok(job);
            }
            Err(job)
        })
    };
    let (_, err) = gpuctl(
        &["create", "-f", "-"],
        &service("busy", "targetGPUUtilization: 70"),
    );
    assert_eq!(err, "", "no warning, because the metric is served");
    let job = until("busy", load(95.0, 6000), 4);
    assert_eq!(
        job["autoscaling"]["metrics"][0]["metric"],
        "gpu_utilization"
    );
    assert_eq!(
        job["autoscaling"]["metrics"][0]["currentPercent"], 95.0,
        "the mean of the devices without garbage samples: {job:#}"
    );
    let job = until("busy", load(5.0, 6000), 1);
    assert_eq!(
        (&job["status"], &job["resources"]["gpuTotal"]),
        (&json!("running"), &json!(1))
    );
    gpuctl(&["delete", "job", "busy"], "");

    // Scales by memory only: the devices are idle but full.
    let (_, err) = gpuctl(
        &["create", "-f", "-"],
        &service("full", "targetMemoryUtilization: 80"),
    );
    assert_eq!(err, "");
    let job = until("full", load(0.0, 22_800), 4);
    assert_eq!(
        job["autoscaling"]["metrics"][0]["metric"],
        "gpu_memory_utilization"
    );
    // 22,800 of 24,000 MiB.
    assert_eq!(job["autoscaling"]["metrics"][0]["currentPercent"], 95.0);
    until("full", load(0.0, 2400), 1);
    gpuctl(&["delete", "job", "full"], "");

    // For MIG instances and AMD devices, the name of the metric is the same.
    for (name, device) in [("sliced", Device::Mig), ("amd", Device::Amd)] {
        gpuctl(
            &["create", "-f", "-"],
            &service(name, "targetGPUUtilization: 70"),
        );
        let job = until(
            name,
            Load {
                device,
                ..load(90.0, 6000)
            },
            4,
        );
        assert_eq!(
            job["autoscaling"]["metrics"][0]["currentPercent"], 90.0,
            "{job:#}"
        );
        until(
            name,
            Load {
                device,
                ..load(5.0, 6000)
            },
            1,
        );
        gpuctl(&["delete", "job", name], "");
    }

    // Scales by queued requests, whatever the load of the devices is.
    let (_, err) = gpuctl(
        &["create", "-f", "-"],
        &service("queued", "targetQueueLength: 4"),
    );
    assert_eq!(err, "");
    let job = until(
        "queued",
        Load {
            waiting: 12,
            ..load(10.0, 6000)
        },
        4,
    );
    let metric = &job["autoscaling"]["metrics"][0];
    assert_eq!(
        (&metric["metric"], &metric["current"], &metric["target"]),
        (&json!("inference_queue_length"), &json!(12.0), &json!(4.0))
    );
    assert_eq!(
        metric["currentPercent"],
        Value::Null,
        "a queue length is not a percentage"
    );
    until(
        "queued",
        Load {
            waiting: 0,
            ..load(10.0, 6000)
        },
        1,
    );
}
