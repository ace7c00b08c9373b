//! Jobs in the queues of a real Kueue: queued, admitted, preempted, paused, resumed, deleted. `cargo reality --slow` runs it, for
//! Kueue takes a quarter of an hour to build. A cluster of its own: Kueue's webhooks judge every Job and pod.

#[path = "runner/mod.rs"]
mod runner;

use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Kubectl, Options, Persona};
use serde_json::{Value, json};

use runner::{Run, gpuctl, run};

struct Scene {
    cluster: Cluster,
    admin: Kubectl,
}

fn training(name: &str, more: &str, resources: &str) -> String {
    format!(
        "kind: training\nversion: v0.1\njob: {{name: {name}, queue: research{more}}}\n\
         environment: {{image: busybox, command: [train]}}\nresources: {{pool: queued, {resources}}}\n"
    )
}

impl Scene {
    fn gpuctl(&self, arguments: &[&str], input: &str) -> Run {
        let mut command = gpuctl();
        command.env("KUBECONFIG", self.cluster.kubeconfig(Persona::Admin)).args(arguments);
        run(command, input)
    }

    fn create(&self, yaml: &str) -> Run {
        self.gpuctl(&["create", "-f", "-"], yaml).ok()
    }

    fn job(&self, name: &str) -> Value {
        let list = self.gpuctl(&["get", "jobs", "--no-progress", "-o", "json"], "").ok().json();
        list["items"].as_array().unwrap().iter().find(|job| job["jobId"] == name).cloned().unwrap_or(Value::Null)
    }

    #[track_caller]
    fn until(&self, name: &str, good: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let job = self.job(name);
            if good(&job) {
                return job;
            }
            assert!(Instant::now() < end, "{name} never became what was awaited: {job:#}");
            thread::sleep(Duration::from_millis(300));
        }
    }

    #[track_caller]
    fn queued(&self, name: &str, reason: &str, words: &str) -> Value {
        self.until(name, |job| {
            let said = job["message"].as_str().unwrap_or_default();
            job["status"] == "pending" && job["reason"] == "Queued" && job["queueReason"] == reason && said.contains(words)
        })
    }

    #[track_caller]
    fn running(&self, name: &str) -> Value {
        self.until(name, |job| job["status"] == "running")
    }
}

#[test]
fn jobs_in_kueue_s_queues() {
    let cluster = Cluster::start(&Options { with_kueue: true, ..Options::default() }).unwrap_or_else(|error| panic!("{error:#}"));
    let gpus = |name: &str| in_pool(node(name, Some(("NVIDIA-A100-SXM4-80GB", "81920")), &[("nvidia.com/gpu", 8)]), "queued");
    cluster.add_nodes(&[gpus("queued-0"), gpus("queued-1"), gpus("queued-2")]);
    let admin = cluster.kubectl(Persona::Admin);
    let quota = json!([{"coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": "gpus", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}]}]);
    let api = "kueue.x-k8s.io/v1beta2";
    admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "gpus"}},
        {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": "science"}, "spec": {"namespaceSelector": {},
            "resourceGroups": quota, "preemption": {"withinClusterQueue": "LowerPriority"}}},
        {"apiVersion": api, "kind": "LocalQueue", "metadata": {"name": "research", "namespace": "default"},
         "spec": {"clusterQueue": "science"}},
    ]}));
    let scene = Scene { cluster, admin };
    waiting_says_what_is_missing(&scene);
    preemption_is_told_with_the_job_it_was_for(&scene);
    pausing_frees_the_quota(&scene);
    a_queue_that_is_stopped_is_named(&scene);
}

fn waiting_says_what_is_missing(scene: &Scene) {
    scene.create(&training("first", "", "gpu: 8"));
    scene.running("first");
    let second = scene.create(&training("second", "", "gpu: 8"));
    assert!(!second.err.contains("queue"), "{}", second.err);
    let job = scene.queued("second", "Pending", "insufficient unused quota for nvidia.com/gpu in flavor gpus, 8 more needed");
    assert_eq!(job["queue"], "research");
    scene.create(&training("large", "", "gpu: 8, node_count: 2"));
    scene.queued("large", "Pending", "maximum capacity");
    let described = scene.gpuctl(&["describe", "second"], "").ok().out;
    assert!(described.contains("queue research: ") && described.contains("insufficient unused quota"), "{described}");
    scene.gpuctl(&["delete", "job", "large", "--force"], "").ok();
    let misspelt = training("other", "", "gpu: 1").replace("queue: research", "queue: reserch");
    scene
        .gpuctl(&["create", "-f", "-"], &misspelt)
        .exits(4)
        .says("queue `reserch` does not exist in namespace `default`; Kueue has research");
}

fn preemption_is_told_with_the_job_it_was_for(scene: &Scene) {
    scene.create(&training("urgent", ", priority: high", "gpu: 8"));
    scene.running("urgent");
    let job = scene.queued("first", "Preempted", "Preempted to accommodate");
    assert!(job["message"].as_str().unwrap().contains("(job default/urgent)"), "{job:#}");
    scene.gpuctl(&["delete", "job", "urgent", "--force"], "").ok();
}

fn pausing_frees_the_quota(scene: &Scene) {
    let end = Instant::now() + Duration::from_secs(60);
    let (runs, waits) = loop {
        match (&scene.job("first")["status"], &scene.job("second")["status"]) {
            (first, _) if first == "running" => break ("first", "second"),
            (_, second) if second == "running" => break ("second", "first"),
            states => assert!(Instant::now() < end, "{states:?}"),
        }
        thread::sleep(Duration::from_millis(300));
    };
    scene.gpuctl(&["pause", runs], "").ok();
    scene.until(runs, |job| job["status"] == "paused");
    scene.running(waits);
    scene.gpuctl(&["resume", runs], "").ok();
    scene.queued(runs, "Pending", "insufficient unused quota");
    scene.gpuctl(&["delete", "job", waits, "--force"], "").ok();
    scene.running(runs);
    scene.gpuctl(&["delete", "job", runs, "--force"], "").ok();
}

fn a_queue_that_is_stopped_is_named(scene: &Scene) {
    let stop = r#"{"spec":{"stopPolicy":"Hold"}}"#;
    scene.admin.run(&["patch", "clusterqueue", "science", "--type=merge", "-p", stop]);
    scene.create(&training("late", "", "gpu: 1"));
    scene.queued("late", "Inadmissible", "ClusterQueue science is inactive");
    scene.gpuctl(&["delete", "job", "late", "--force"], "").ok();
}
