//! Tests `doctor --bundle` on a real cluster with a real Prometheus. The bundle must give the same
//! answers without access to either.

use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

use gpuctl_sandbox::{Cluster, Options};
use serde_json::{Value, json};

use crate::runner;
use crate::support::{Run, Scene, run};

/// Runs gpuctl as on another machine, without a kubeconfig or a Prometheus. Only the bundle is
/// available.
fn replay(bundle: &Path, arguments: &[&str]) -> Run {
    let mut command = runner::gpuctl();
    command
        .env_remove("GPUCTL_PROMETHEUS")
        .env("HOME", "/nonexistent")
        .env("KUBECONFIG", "/nonexistent");
    command
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("XDG_CACHE_HOME", "/dev/null");
    command
        .arg("--replay")
        .arg(bundle)
        .args(["-n", "taped"])
        .args(arguments);
    run(command, "")
}

/// Removes fields that depend on the current time.
fn without_ages(mut answer: Value) -> Value {
    fn walk(value: &mut Value) {
        const AGES: [&str; 4] = ["sampleAgeSeconds", "age", "ageSeconds", "runtimeSeconds"];
        match value {
            Value::Object(fields) => {
                AGES.iter().for_each(|key| drop(fields.remove(*key)));
                fields.values_mut().for_each(walk);
            }
            Value::Array(items) => items.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut answer);
    answer
}

#[test]
fn a_bundle_replays_the_answers_of_the_cluster() {
    // Other tests must not change nodes between the two answers.
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| {
        Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"))
    });
    let scene = Scene::on(cluster, "taped", 2);
    let pods = scene.train("taped-run", 2, 4);
    let secret = "hf_CANARYCANARYCANARYCANARY";
    let yaml = format!(
        "kind: training\nversion: v0.1\njob: {{name: canary}}\nenvironment: {{image: busybox, command: [sleep, '1'], args: ['--hub-token', '{secret}'], env: {{PASSPHRASE: CANARY-by-name}}}}\nresources: {{pool: taped, gpu: 8, node_count: 3}}\n"
    );
    scene
        .gpuctl_with(&["create", "-f", "-", "--allow-pending"], &yaml)
        .ok();
    scene.load(&pods[0], |_, gpu| gpu.utilization = 72.0);
    let nodes = ["get", "nodes", "--pool", "taped", "-o", "json"];
    // The scheduler decides which of the two nodes runs the first pod.
    let loaded = |answer: &Value| {
        answer["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|node| node["gpuUtilization"].as_f64() == Some(72.0))
    };
    let live = scene.until(&nodes[..4], loaded);
    // A new job has no samples yet; compare answers with samples.
    scene.until(&["why", "taped-run"], |answer| {
        !answer["notEvaluated"].to_string().contains("metrics")
    });
    let path = cluster.folder().join("taped.gpuctl");
    let summary = scene
        .gpuctl(&["doctor", "--bundle", path.to_str().unwrap(), "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&summary["unread"], &summary["prometheus"]),
        (&json!([]), &json!(scene.prometheus))
    );

    let offline = |arguments: &[&str]| without_ages(replay(&path, arguments).ok().json());
    assert_eq!(offline(&nodes), without_ages(live));
    // A bundle contains no logs, and the log of a new pod may not be readable yet.
    let without_log = |answer: Value| -> Value {
        let (unreadable, empty) = (
            "its log (it cannot be read)",
            "training steps (its log shows none)",
        );
        serde_json::from_str(&answer.to_string().replace(unreadable, empty)).unwrap()
    };
    let live = |arguments: &[&str]| without_log(without_ages(scene.gpuctl(arguments).ok().json()));
    let offline = |arguments: &[&str]| without_log(offline(arguments));
    for command in [
        &["get", "jobs", "-o", "json"][..],
        &["get", "pools", "-o", "json"],
        &["get", "workloads", "-o", "json"],
        &["describe", "job", "taped-run", "-o", "json"],
        &["tree", "taped-run", "-o", "json"],
        &["why", "taped-run", "-o", "json"],
    ] {
        assert_eq!(offline(command), live(command), "{command:?}");
    }
    // Without kube-state-metrics the hours are empty, but the bundle must contain all of them.
    let hours = offline(&["stats", "cluster", "-o", "json"]);
    assert!(hours.as_array().unwrap().len() >= 24, "{hours:#}");
    assert!(
        replay(&path, &["get", "jobs"])
            .ok()
            .out
            .contains("taped-run")
    );
    let doctor = replay(&path, &["doctor", "-o", "json"]);
    let code = doctor.code;
    let doctor = doctor.json();
    let codes = [("healthy", 0), ("degraded", 13), ("broken", 14)];
    assert!(
        codes
            .iter()
            .any(|verdict| (doctor["verdict"].as_str(), code) == (Some(verdict.0), verdict.1)),
        "{code}: {doctor:#}"
    );
    assert_eq!(
        (
            &doctor["status"],
            &doctor["kubernetes"]["connected"],
            &doctor["prometheus"]["server"]
        ),
        (&json!("healthy"), &json!(true), &json!(scene.prometheus)),
        "{doctor:#}"
    );

    replay(&path, &["stats", "cluster", "--start", "9d"])
        .exits(6)
        .says("the bundle has no answer for");
    replay(&path, &["get", "jobs", "-w"])
        .exits(6)
        .says("does not change");
    replay(&path, &["delete", "job", "taped-run"])
        .exits(1)
        .says("a bundle is read-only");
    replay(&path, &["logs", "taped-run", "-f"])
        .exits(6)
        .says("remove `--follow`");
    replay(&path, &["exec", "taped-run", "--", "true"])
        .exits(6)
        .says("does not change");
    replay(&path, &["--context", "prod", "get", "jobs"])
        .exits(2)
        .says("cannot be used together");
    replay(&path, &["stats", "cluster", "--cluster", "prod"])
        .exits(2)
        .says("the bundle was created from cluster");
    replay(&path, &["get", "jobs", "nope"]).exits(4);
    replay(Path::new("/nonexistent.gpuctl"), &["get", "jobs"])
        .exits(2)
        .says("gpuctl doctor --bundle FILE");

    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    assert!(!text.contains("CANARY") && text.contains("taped-run"));
}
