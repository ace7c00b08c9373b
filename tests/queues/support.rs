//! A cluster with queues, and the state of its jobs as gpuctl reports it.

use std::time::Duration;

use gpuctl_sandbox::{Cluster, Kubectl, Options, Persona, eventually};
use serde_json::Value;

use crate::runner::{Run, gpuctl, run};

pub struct Scene {
    pub cluster: Cluster,
    pub admin: Kubectl,
}

impl Scene {
    pub fn new(options: &Options) -> Self {
        let cluster = Cluster::start(options).unwrap_or_else(|error| panic!("{error:#}"));
        let admin = cluster.kubectl(Persona::Admin);
        Self { cluster, admin }
    }

    pub fn gpuctl(&self, arguments: &[&str], input: &str) -> Run {
        self.gpuctl_as(Persona::Admin, arguments, input)
    }

    pub fn gpuctl_as(&self, persona: Persona, arguments: &[&str], input: &str) -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", self.cluster.kubeconfig(persona))
            .args(arguments);
        run(command, input)
    }

    pub fn create(&self, yaml: &str) -> Run {
        self.gpuctl(&["create", "-f", "-"], yaml).ok()
    }

    pub fn job(&self, name: &str) -> Value {
        let list = self
            .gpuctl(&["get", "jobs", "--no-progress", "-o", "json"], "")
            .ok()
            .json();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|job| job["jobId"] == name)
            .cloned()
            .unwrap_or(Value::Null)
    }

    #[track_caller]
    pub fn until(&self, name: &str, good: impl Fn(&Value) -> bool) -> Value {
        eventually(
            &format!("job {name} has the expected state"),
            Duration::from_secs(120),
            || {
                let job = self.job(name);
                if good(&job) { Ok(job) } else { Err(job) }
            },
        )
    }

    #[track_caller]
    pub fn running(&self, name: &str) -> Value {
        self.until(name, |job| job["status"] == "running")
    }
}
