//! A cluster with one real node, and a scene per test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::exporter::Gpu;
use gpuctl_sandbox::{Cluster, Hardware, Kubectl, Options, Persona};
use serde_json::{Value, json};

use crate::runner::{Run, gpuctl, run};

/// The pool of the real node.
pub const POOL: &str = "real";

pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let start = || {
            let cluster = Cluster::start(&Options {
                with_real_nodes: true,
                ..Options::default()
            })?;
            cluster.add_real_node(&Hardware {
                claims: 2,
                ..Hardware::gpus(32).in_pool(POOL)
            })?;
            anyhow::Ok(cluster)
        };
        start().unwrap_or_else(|error| panic!("{error:#}"))
    })
}

/// A namespace.
pub struct Scene {
    pub name: &'static str,
    pub admin: Kubectl,
}

impl Scene {
    pub fn new(name: &'static str) -> Self {
        let admin = cluster().kubectl(Persona::Admin);
        admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        Self { name, admin }
    }

    /// Runs gpuctl in this scene's namespace.
    pub fn gpuctl(&self, arguments: &[&str]) -> Run {
        self.gpuctl_with(arguments, "")
    }

    /// The same with a file on stdin.
    pub fn gpuctl_with(&self, arguments: &[&str], input: &str) -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
            .args(["-n", self.name])
            .args(arguments);
        run(command, input)
    }

    /// Starts gpuctl and leaves it running.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
            .args(["-n", self.name])
            .args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("gpuctl starts")
    }

    /// Submits a training on the real node. `script` is what its shell runs; `extra` are further
    /// lines of YAML.
    pub fn train(&self, name: &str, script: &str, extra: &str) -> Run {
        self.gpuctl_with(&["create", "-f", "-"], &training(name, script, extra))
            .ok()
    }

    /// The job as `get jobs -o json` shows it.
    pub fn job(&self, name: &str) -> Value {
        let list = self
            .gpuctl(&["get", "jobs", "--no-progress", "-o", "json"])
            .ok()
            .json();
        let items = list["items"].as_array().expect("items are a list");
        items
            .iter()
            .find(|job| job["jobId"] == name)
            .cloned()
            .unwrap_or(Value::Null)
    }

    /// Waits until the job's status and reason are these.
    pub fn until(&self, name: &str, status: &str, reason: Option<&str>) -> Value {
        eventually(&format!("{name} is {status} {reason:?}"), || {
            let job = self.job(name);
            let good =
                job["status"] == status && reason.is_none_or(|reason| job["reason"] == reason);
            good.then_some(job.clone()).ok_or(job)
        })
    }

    /// Pods of a job as the API server has them, by name.
    pub fn pods(&self, job: &str) -> Vec<Value> {
        let list = self.admin.json(&[
            "get",
            "pods",
            "-n",
            self.name,
            "-l",
            &format!("gpuctl/job={job}"),
        ]);
        let mut pods = list["items"].as_array().cloned().unwrap_or_default();
        pods.sort_by_key(|pod| pod["metadata"]["name"].as_str().map(ToOwned::to_owned));
        pods
    }
}

/// A file of a training on the real node, of one GPU where `extra` has no `resources`.
pub fn training(name: &str, script: &str, extra: &str) -> String {
    let resources = if extra.contains("resources:") {
        String::new()
    } else {
        format!("resources: {{pool: {POOL}, gpu: 1}}\n")
    };
    let environment = if extra.contains("environment:") {
        String::new()
    } else {
        format!(
            "environment: {{image: 'toolbox:1', command: [sh, -c, {}]}}\n",
            json!(script)
        )
    };
    let job = if extra.contains("job:") {
        String::new()
    } else {
        format!("job: {{name: {name}}}\n")
    };
    format!("kind: training\nversion: v0.1\n{job}{environment}{resources}{extra}\n")
}

/// Asks until there is an answer, for a minute and a half; a failure shows the last state.
#[track_caller]
pub fn eventually<T, E: std::fmt::Debug>(what: &str, mut ask: impl FnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + Duration::from_secs(90);
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(state) if Instant::now() > end => panic!("never: {what}: {state:#?}"),
            Err(_) => thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Devices of the real node as an exporter tells them, with whom the kubelet gave them to. Device 7
/// is 7 % busy, and so on.
pub fn devices(holders: &BTreeMap<String, String>, count: u32) -> Vec<Gpu> {
    let device = |index: u32| {
        let uuid = format!("GPU-0-{index}");
        let pods = holders.get(&uuid).map(|holder| {
            let [namespace, pod, container] = holder
                .split('/')
                .map(ToOwned::to_owned)
                .collect::<Vec<_>>()
                .try_into()
                .unwrap();
            (namespace, pod, container)
        });
        Gpu {
            node: "gpu-real-0".to_owned(),
            index,
            uuid,
            model: "NVIDIA A100-SXM4-80GB".to_owned(),
            utilization: f64::from(index),
            free_mib: 81_920,
            pods: pods.into_iter().collect(),
            ..Gpu::default()
        }
    };
    (0..count).map(device).collect()
}

/// A file for one test.
pub fn file(name: &str) -> PathBuf {
    let folder = cluster().folder().join("files");
    std::fs::create_dir_all(&folder).expect("the sandbox's folder is writable");
    folder.join(name)
}
