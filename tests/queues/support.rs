//! A cluster with queues, and what a person sees of jobs in them.

use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::{Cluster, Kubectl, Options, Persona};
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

    pub fn gpuctl_as(&self, who: Persona, arguments: &[&str], input: &str) -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", self.cluster.kubeconfig(who))
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
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let job = self.job(name);
            if good(&job) {
                return job;
            }
            assert!(
                Instant::now() < end,
                "{name} never became what was awaited: {job:#}"
            );
            thread::sleep(Duration::from_millis(300));
        }
    }

    #[track_caller]
    pub fn running(&self, name: &str) -> Value {
        self.until(name, |job| job["status"] == "running")
    }
}
