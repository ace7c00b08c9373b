//! An exporter whose every number is known, a Prometheus of its own that scrapes it, and gpuctl
//! that asks it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gpuctl::generated::KEYS;
use gpuctl_sandbox::exporter::{Dialect, Exporter, Gpu};
use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona};
use serde_json::{Value, json};

use crate::runner;
pub use crate::runner::{Run, run};

/// The cluster of the tests that look at their own part of it only.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"))
    })
}

pub const A100: (&str, &str) = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
pub const GPU: &str = "nvidia.com/gpu";

/// How a scrape treats labels that clash.
pub fn scrape(exporter: &Exporter, dialect: Dialect, honors: bool) -> Value {
    json!({
        "job_name": format!("{}-{honors}", dialect.name()), "honor_labels": honors,
        "metrics_path": format!("/metrics/{}", dialect.name()),
        "static_configs": [{"targets": [exporter.address()],
            // What the exporter's own pod adds.
            "labels": {"namespace": "gpu-operator", "pod": "dcgm-exporter-x7k2p", "container": "exporter"}}],
    })
}

/// A namespace and a pool of the same name with an exporter and a Prometheus for it.
pub struct Scene {
    pub name: &'static str,
    pub cluster: &'static Cluster,
    pub exporter: Exporter,
    pub prometheus: String,
}

impl Scene {
    /// With nodes of eight A100; every device is idle until somebody says otherwise.
    pub fn new(name: &'static str, nodes: usize) -> Self {
        Self::on(cluster(), name, nodes)
    }

    pub fn on(cluster: &'static Cluster, name: &'static str, nodes: usize) -> Self {
        let admin = cluster.kubectl(Persona::Admin);
        admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        let names: Vec<String> = (0..nodes).map(|index| format!("{name}-{index}")).collect();
        let objects: Vec<Value> = names
            .iter()
            .map(|one| in_pool(node(one, Some(A100), &[(GPU, 8)]), name))
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

    /// Runs a training of `pods` pods with `gpus` devices each, and gives them devices in order.
    /// Returns the pods by name.
    pub fn train(&self, job: &str, pods: u32, gpus: u32) -> Vec<String> {
        let name = self.name;
        let yaml = format!(
            "kind: training\nversion: v0.1\njob: {{name: {job}}}\nenvironment: {{image: busybox, command: [sleep, '1']}}\nresources: {{pool: {name}, gpu: {gpus}, node_count: {pods}}}\n"
        );
        self.gpuctl_with(&["create", "-f", "-", "--wait", "--timeout", "60s"], &yaml)
            .ok();
        self.hand_out(job)
    }

    /// Gives devices to the pods of a job as a kubelet would: free ones, in order. Returns the pods
    /// by name.
    pub fn hand_out(&self, job: &str) -> Vec<String> {
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

    /// Sets values of the devices that a pod holds, with their place among them.
    pub fn load(&self, pod: &str, change: impl Fn(u32, &mut Gpu)) {
        self.exporter.change(|fleet| {
            let held = fleet
                .gpus
                .iter_mut()
                .filter(|gpu| gpu.pods.iter().any(|(_, name, _)| name == pod));
            held.zip(0..).for_each(|(gpu, place)| change(place, gpu));
        });
    }

    /// Devices as they are exported now.
    pub fn gpus(&self) -> Vec<Gpu> {
        let mut found = Vec::new();
        self.exporter.change(|fleet| found.clone_from(&fleet.gpus));
        found
    }

    pub fn gpuctl(&self, arguments: &[&str]) -> Run {
        self.gpuctl_with(arguments, "")
    }

    pub fn gpuctl_with(&self, arguments: &[&str], input: &str) -> Run {
        self.asking(&self.prometheus, arguments, input)
    }

    /// The same with another Prometheus.
    pub fn asking(&self, prometheus: &str, arguments: &[&str], input: &str) -> Run {
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

    /// Asks again until the answer is as wanted: a change takes a scrape to be seen.
    pub fn until(&self, arguments: &[&str], good: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(40);
        loop {
            let answer = self.json(arguments);
            if good(&answer) {
                return answer;
            }
            assert!(
                Instant::now() < end,
                "{arguments:?} never answers what is awaited: {answer:#}"
            );
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// The nodes of this scene.
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
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("XDG_STATE_HOME", "/nonexistent");
    command
}

/// A file for one test.
pub fn file(name: &str, text: &str) -> PathBuf {
    let path = cluster().folder().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// The arithmetic mean, by hand.
pub fn mean(values: &[f64]) -> f64 {
    let mut sum = 0.0;
    for value in values {
        sum += value;
    }
    sum / values.len() as f64
}

/// Both are the same number to two decimals.
#[track_caller]
pub fn near(found: &Value, expected: f64) {
    let number = found
        .as_f64()
        .unwrap_or_else(|| panic!("{found} is no number; {expected} was expected"));
    assert!(
        (number - expected).abs() < 0.006,
        "{number} is not {expected}"
    );
}
