//! An exporter with known values, a Prometheus that scrapes it, and gpuctl commands that query it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use gpuctl::generated::KEYS;
use gpuctl_sandbox::exporter::{Dialect, Exporter, Gpu};
use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona, eventually};
use serde_json::{Value, json};

use crate::runner;
pub use crate::runner::{Run, run};

/// The cluster of tests that use only their own namespace and nodes.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"))
    })
}

pub const A100: (&str, &str) = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
pub const GPU: &str = "nvidia.com/gpu";

/// A scrape configuration. `honor_labels` decides which value wins when a label of the exporter
/// clashes with a label of the target.
pub fn scrape(exporter: &Exporter, dialect: Dialect, honor_labels: bool) -> Value {
    json!({
        "job_name": format!("{}-{honor_labels}", dialect.name()), "honor_labels": honor_labels,
        "metrics_path": format!("/metrics/{}", dialect.name()),
        "static_configs": [{"targets": [exporter.address()],
            // Labels of the exporter's own pod.
            "labels": {"namespace": "gpu-operator", "pod": "dcgm-exporter-x7k2p", "container": "exporter"}}],
    })
}

/// A namespace and a node pool of the same name, with an exporter and a Prometheus.
pub struct Scene {
    pub name: &'static str,
    pub cluster: &'static Cluster,
    pub exporter: Exporter,
    pub prometheus: String,
}

impl Scene {
    /// Creates nodes with eight idle A100 each.
    #[track_caller]
    pub fn new(name: &'static str, nodes: usize) -> Self {
        Self::on(cluster(), name, nodes)
    }

    #[track_caller]
    pub fn on(cluster: &'static Cluster, name: &'static str, nodes: usize) -> Self {
        gpuctl_sandbox::assert_unique(name);
        let admin = cluster.kubectl(Persona::Admin);
        admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        let names: Vec<String> = (0..nodes).map(|index| format!("{name}-{index}")).collect();
        let objects: Vec<Value> = names
            .iter()
            .map(|node_name| in_pool(node(node_name, Some(A100), &[(GPU, 8)]), name))
            .collect();
        if nodes > 0 {
            cluster.add_nodes(&objects);
        }
        let exporter = Exporter::start().unwrap();
        exporter.change(|fleet| {
            fleet.gpus = names
                .iter()
                .flat_map(|node| (0..8).map(|index| gpu(node, index)))
                .collect();
        });
        let scrapes = json!([scrape(&exporter, Dialect::Dcgm, false)]);
        let prometheus = cluster
            .another_prometheus(&format!("prometheus-{name}"), &scrapes)
            .unwrap();
        Self {
            name,
            cluster,
            exporter,
            prometheus,
        }
    }

    /// Runs a training of `pods` pods with `gpus` devices each, and assigns devices in order.
    /// Returns the names of the pods.
    pub fn train(&self, job: &str, pods: u32, gpus: u32) -> Vec<String> {
        let name = self.name;
        let yaml = format!(
            "kind: training\nversion: v0.1\njob: {{name: {job}}}\nenvironment: {{image: busybox, command: [sleep, '1']}}\nresources: {{pool: {name}, gpu: {gpus}, node_count: {pods}}}\n"
        );
        self.gpuctl_with(&["create", "-f", "-", "--wait", "--timeout", "60s"], &yaml)
            .ok();
        self.assign_devices(job)
    }

    /// Assigns free devices to the pods of a job in order, as a kubelet would. Returns the names of
    /// the pods.
    pub fn assign_devices(&self, job: &str) -> Vec<String> {
        let list = self.cluster.kubectl(Persona::Admin).json(&[
            "get",
            "pods",
            "-n",
            self.name,
            "-l",
            &format!("gpuctl/job={job}"),
        ]);
        let mut pods: Vec<Value> = list["items"].as_array().unwrap().clone();
        pods.sort_by_key(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        for pod in &pods {
            let container = &pod["spec"]["containers"][0];
            let count: usize = container["resources"]["limits"][GPU]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            let holder = (
                self.name.to_owned(),
                text(&pod["metadata"]["name"]),
                text(&container["name"]),
            );
            let node = text(&pod["spec"]["nodeName"]);
            self.exporter.change(|fleet| {
                let free = fleet
                    .gpus
                    .iter_mut()
                    .filter(|gpu| gpu.node == node && gpu.pods.is_empty());
                free.take(count)
                    .for_each(|gpu| gpu.pods.push(holder.clone()));
            });
        }
        pods.iter()
            .map(|pod| text(&pod["metadata"]["name"]))
            .collect()
    }

    /// Changes the devices of a pod. `change` gets the index of each device within the pod.
    pub fn load(&self, pod: &str, change: impl Fn(u32, &mut Gpu)) {
        self.exporter.change(|fleet| {
            let held = fleet
                .gpus
                .iter_mut()
                .filter(|gpu| gpu.pods.iter().any(|(_, name, _)| name == pod));
            held.zip(0..).for_each(|(gpu, index)| change(index, gpu));
        });
    }

    /// A copy of the exported devices.
    pub fn gpus(&self) -> Vec<Gpu> {
        let mut gpus = Vec::new();
        self.exporter.change(|fleet| gpus.clone_from(&fleet.gpus));
        gpus
    }

    pub fn gpuctl(&self, arguments: &[&str]) -> Run {
        self.gpuctl_with(arguments, "")
    }

    pub fn gpuctl_with(&self, arguments: &[&str], input: &str) -> Run {
        self.gpuctl_at(&self.prometheus, arguments, input)
    }

    /// Runs gpuctl with another Prometheus.
    pub fn gpuctl_at(&self, prometheus: &str, arguments: &[&str], input: &str) -> Run {
        let mut command = gpuctl(self.cluster, Persona::Admin);
        command
            .args(["--prometheus", prometheus, "-n", self.name])
            .args(arguments);
        run(command, input)
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        self.gpuctl(&[arguments, &["-o", "json"]].concat())
            .ok()
            .json()
    }

    /// Retries until the answer is as expected. A change is visible after the next scrape.
    #[track_caller]
    pub fn until(&self, arguments: &[&str], good: impl Fn(&Value) -> bool) -> Value {
        eventually(
            &format!("{arguments:?} gives the expected answer"),
            Duration::from_secs(40),
            || {
                let answer = self.json(arguments);
                if good(&answer) {
                    Ok(answer)
                } else {
                    Err(answer)
                }
            },
        )
    }

    /// Arguments that list the nodes of this scene.
    pub fn nodes(&self) -> [&'static str; 4] {
        ["get", "nodes", "--pool", self.name]
    }
}

/// An idle device of a simulated A100.
pub fn gpu(node: &str, index: u32) -> Gpu {
    Gpu {
        node: node.to_owned(),
        index,
        uuid: format!("GPU-{node}-{index}"),
        model: "NVIDIA A100-SXM4-80GB".to_owned(),
        used_mib: 512,
        free_mib: 80_000 - 512,
        watts: 60.0,
        limit_watts: 400.0,
        celsius: 30.0,
        ..Gpu::default()
    }
}

pub fn gpuctl(cluster: &Cluster, persona: Persona) -> Command {
    let mut command = runner::gpuctl();
    for name in KEYS.iter().flat_map(|key| key.variables) {
        command.env_remove(name);
    }
    command
        .env("KUBECONFIG", cluster.kubeconfig(persona))
        .env("TZ", "UTC")
        .env("XDG_CACHE_HOME", cluster.folder().join("cache"));
    command
        .env("XDG_CONFIG_HOME", "/dev/null")
        .env("XDG_STATE_HOME", "/nonexistent");
    command
}

/// Writes a file into the folder of the shared cluster.
pub fn file(name: &str, text: &str) -> PathBuf {
    let path = cluster().folder().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// The arithmetic mean.
pub fn mean(values: &[f64]) -> f64 {
    let mut sum = 0.0;
    for value in values {
        sum += value;
    }
    sum / values.len() as f64
}

/// Asserts that a number is equal to two decimals.
#[track_caller]
pub fn near(actual: &Value, expected: f64) {
    let number = actual
        .as_f64()
        .unwrap_or_else(|| panic!("{actual} is not a number; expected {expected}"));
    assert!(
        (number - expected).abs() < 0.006,
        "{number} instead of {expected}"
    );
}
