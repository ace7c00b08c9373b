//! A cluster with one real node, and a scene for each test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use gpuctl_sandbox::exporter::Gpu;
use gpuctl_sandbox::{Cluster, Hardware, Kubectl, Options, Persona};
use serde_json::{Value, json};

use crate::runner::{Run, gpuctl, run};

/// The real node's pool.
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

/// One test's namespace.
pub struct Scene {
    pub name: &'static str,
    pub admin: Kubectl,
}

impl Scene {
    #[track_caller]
    pub fn new(name: &'static str) -> Self {
        gpuctl_sandbox::assert_unique(name);
        let admin = cluster().kubectl(Persona::Admin);
        admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        Self { name, admin }
    }

    /// Runs gpuctl in this scene's namespace.
    pub fn gpuctl(&self, arguments: &[&str]) -> Run {
        self.gpuctl_with(arguments, "")
    }

    /// Runs gpuctl with a manifest on stdin.
    pub fn gpuctl_with(&self, arguments: &[&str], input: &str) -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
            .args(["-n", self.name])
            .args(arguments);
        run(command, input)
    }

    /// Starts gpuctl without waiting for it to end.
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

    /// Submits a training to the real node. Its shell runs `script`; `extra` is appended to the
    /// manifest.
    pub fn train(&self, name: &str, script: &str, extra: &str) -> Run {
        self.gpuctl_with(&["create", "-f", "-"], &training(name, script, extra))
            .ok()
    }

    /// The job as shown by `get jobs -o json`.
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

    pub fn until(&self, name: &str, status: &str, reason: Option<&str>) -> Value {
        eventually(&format!("{name} is {status} {reason:?}"), || {
            let job = self.job(name);
            let is_reached =
                job["status"] == status && reason.is_none_or(|reason| job["reason"] == reason);
            is_reached.then_some(job.clone()).ok_or(job)
        })
    }

    /// A job's pods from the API server, sorted by name.
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

/// A training's manifest for the real node, with one GPU unless `extra` contains `resources`.
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

/// Polls with a time limit that suits a real kubelet.
#[track_caller]
pub fn eventually<A: gpuctl_sandbox::Attempt>(what: &str, ask: impl FnMut() -> A) -> A::Value {
    gpuctl_sandbox::eventually(what, Duration::from_secs(90), ask)
}

/// The real node's devices as an exporter reports them, each with the container that the kubelet
/// assigned it to. Device N has a utilization of N %.
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

/// Path of a file in the sandbox's folder.
pub fn file(name: &str) -> PathBuf {
    let folder = cluster().folder().join("files");
    std::fs::create_dir_all(&folder).expect("the sandbox's folder is writable");
    folder.join(name)
}
