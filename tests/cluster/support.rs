//! The shared cluster, a scene per test, and helpers that run gpuctl as users and scripts do.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Kubectl, Options, Persona, eventually};
use serde_json::{Value, json};

use crate::runner::gpuctl;
pub use crate::runner::{Run, finish, run};

pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster =
            Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
        cluster.add_nodes(&[node("plain-01", None, &[])]);
        cluster
    })
}

/// A namespace, and a pool with the same name.
pub struct Scene {
    pub name: &'static str,
    pub admin: Kubectl,
    persona: Persona,
}

pub const A100: (&str, &str) = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
pub const GPU: &str = "nvidia.com/gpu";

impl Scene {
    /// An empty namespace.
    #[track_caller]
    pub fn new(name: &'static str) -> Self {
        gpuctl_sandbox::assert_unique(name);
        let admin = cluster().kubectl(Persona::Admin);
        admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        Self {
            name,
            admin,
            persona: Persona::Admin,
        }
    }

    /// A namespace and `count` nodes with eight A100 each in the pool.
    #[track_caller]
    pub fn with_nodes(name: &'static str, count: usize) -> Self {
        let scene = Self::new(name);
        let nodes: Vec<Value> = (0..count)
            .map(|index| {
                in_pool(
                    node(&format!("{name}-{index}"), Some(A100), &[(GPU, 8)]),
                    name,
                )
            })
            .collect();
        cluster().add_nodes(&nodes);
        scene
    }

    /// Returns the same scene, but another user runs gpuctl in it.
    pub fn seen_by(&self, persona: Persona) -> Self {
        Self {
            name: self.name,
            admin: self.admin.clone(),
            persona,
        }
    }

    /// Binds only the built-in `edit` role in this namespace.
    pub fn allow_edit(&self, persona: Persona) {
        let name = format!("edit-{}", persona.name());
        self.admin.run(&[
            "create",
            "rolebinding",
            &name,
            "--clusterrole=edit",
            &format!("--user={}", persona.user()),
            "-n",
            self.name,
        ]);
    }

    /// Runs gpuctl in this scene's namespace.
    pub fn gpuctl(&self, arguments: &[&str]) -> Run {
        run(self.command(arguments), "")
    }

    /// Runs gpuctl with input on stdin.
    pub fn gpuctl_with(&self, arguments: &[&str], input: &str) -> Run {
        run(self.command(arguments), input)
    }

    /// Runs gpuctl without `-n`.
    pub fn gpuctl_anywhere(&self, arguments: &[&str]) -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster().kubeconfig(self.persona))
            .args(arguments);
        run(command, "")
    }

    /// Starts gpuctl and leaves it running.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("gpuctl starts")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster().kubeconfig(self.persona))
            .args(["-n", self.name])
            .args(arguments);
        command
    }

    /// Submits a training to the pool of the scene; `extra` adds lines of YAML.
    pub fn create(&self, name: &str, extra: &str) -> Run {
        self.gpuctl_with(
            &["create", "-f", "-", "--allow-pending"],
            &self.training(name, extra),
        )
        .ok()
    }

    pub fn training(&self, name: &str, extra: &str) -> String {
        let pool = self.name;
        let resources = if extra.contains("resources:") {
            String::new()
        } else {
            format!("resources: {{pool: {pool}, gpu: 1}}\n")
        };
        let environment = if extra.contains("environment:") {
            ""
        } else {
            "environment: {image: busybox}\n"
        };
        let job = if extra.contains("job:") {
            String::new()
        } else {
            format!("job: {{name: {name}}}\n")
        };
        format!("kind: training\nversion: v0.1\n{job}{environment}{resources}{extra}\n")
            .replace("POOL", pool)
            .replace("NAME", name)
    }

    /// Submits a service with one GPU per replica to the pool of the scene; `extra` adds lines of
    /// YAML.
    pub fn serve(&self, name: &str, image: &str, replicas: u32, extra: &str) -> Run {
        self.gpuctl_with(
            &["create", "-f", "-", "--allow-pending"],
            &self.service(name, image, replicas, extra),
        )
        .ok()
    }

    pub fn service(&self, name: &str, image: &str, replicas: u32, extra: &str) -> String {
        let service = if extra.contains("service:") {
            String::new()
        } else {
            format!("service: {{replicas: {replicas}, port: 8000}}\n")
        };
        let resources = if extra.contains("resources:") {
            String::new()
        } else {
            "resources: {pool: POOL, gpu: 1}\n".to_owned()
        };
        format!("kind: inference\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: {image}}}\n{service}{resources}{extra}\n")
            .replace("POOL", self.name)
    }

    /// Submits a notebook to the pool of the scene.
    pub fn notebook(&self, name: &str, extra: &str) -> Run {
        let pool = self.name;
        let environment = if extra.contains("environment:") {
            ""
        } else {
            "environment: {image: jupyter}\n"
        };
        let yaml = format!(
            "kind: notebook\nversion: v0.1\njob: {{name: {name}}}\n{environment}resources: {{pool: {pool}, gpu: 1}}\n{extra}\n"
        );
        self.gpuctl_with(&["create", "-f", "-", "--allow-pending"], &yaml)
            .ok()
    }

    /// Returns the job as `get jobs -o json` shows it.
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

    /// Waits until the job has this status and, if given, this reason.
    #[track_caller]
    pub fn until(&self, name: &str, status: &str, reason: Option<&str>) -> Value {
        let what = format!("{name} is {status} {reason:?}");
        eventually(&what, Duration::from_secs(90), || {
            let job = self.job(name);
            if job["status"] == status && reason.is_none_or(|reason| job["reason"] == reason) {
                Ok(job)
            } else {
                Err(job)
            }
        })
    }

    /// Reads objects of the namespace.
    pub fn get(&self, arguments: &[&str]) -> Value {
        self.admin
            .json(&[&["get", "-n", self.name], arguments].concat())
    }

    /// Reads objects of the namespace until they meet a condition.
    pub fn get_until(&self, arguments: &[&str], good: impl Fn(&Value) -> bool) -> Value {
        self.admin
            .until(&[&["get", "-n", self.name], arguments].concat(), good)
    }

    /// Returns the pods of a job, sorted by name and therefore by rank.
    pub fn pods(&self, job: &str) -> Vec<Value> {
        let mut pods = items(&self.get(&["pods", "-l", &format!("gpuctl/job={job}")]));
        pods.sort_by_key(|pod| pod["metadata"]["name"].as_str().map(ToOwned::to_owned));
        pods
    }
}

/// Returns a container's command without the supervisor, which jobs with several ranks prepend to
/// it.
pub fn own_command(container: &Value) -> Value {
    let command = container["command"].as_array().cloned().unwrap_or_default();
    let has_supervisor = command.get(3).is_some_and(|word| word == "supervisor");
    let end = command
        .iter()
        .position(|word| word == "--")
        .filter(|_| has_supervisor);
    Value::Array(end.map_or_else(|| command.clone(), |end| command[end + 1..].to_vec()))
}

pub fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Writes a file for one test.
pub fn file(name: &str, text: &str) -> PathBuf {
    let folder = cluster().folder().join("files");
    std::fs::create_dir_all(&folder).expect("the sandbox's folder is writable");
    let path = folder.join(name);
    std::fs::write(&path, text).expect("the sandbox's folder is writable");
    path
}
