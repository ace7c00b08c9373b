//! Tests when a waiting job is estimated to start. The history has starts with known waiting times.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use gpuctl_sandbox::Persona;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::{Value, json};

use crate::past::{Sample, ask, store};
use crate::support::{A100, GPU, cluster, gpuctl, run};

/// Past pods: nineteen pods with eight GPUs that waited 1,000 to 19,000 s, and dissimilar ones.
fn history(now: i64) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut start = |name: String, node: &str, gpus: u64, waited: i64| {
        let created = now - 5 * 86_400;
        let id = format!("namespace=\"starting\",pod=\"{name}\",uid=\"{name}\"");
        let mut put = |series: String, value: i64| {
            // Three samples are enough: the values are constant.
            for at in [0, 300, 600] {
                samples.push(Sample {
                    series: series.clone(),
                    at,
                    value: value.to_string(),
                });
            }
        };
        put(format!("kube_pod_created{{{id}}}"), created);
        put(
            format!("kube_pod_status_scheduled_time{{{id}}}"),
            created + waited,
        );
        put(format!("kube_pod_info{{{id},node=\"{node}\"}}"), 1);
        put(
            format!(
                "kube_pod_owner{{{id},owner_kind=\"Job\",owner_name=\"{name}\",owner_is_controller=\"true\"}}"
            ),
            1,
        );
        put(
            format!(
                "kube_pod_container_resource_requests{{{id},container=\"main\",node=\"{node}\",resource=\"nvidia_com_gpu\"}}"
            ),
            gpus as i64,
        );
    };
    for number in 1..=19 {
        start(format!("same-{number}"), "starting-0", 8, number * 1000);
    }
    for number in 1..=5 {
        start(format!("small-{number}"), "starting-0", 1, 50_000);
        start(format!("elsewhere-{number}"), "another", 8, 70_000);
    }
    samples
}

#[test]
fn estimates_come_from_the_waiting_times_of_similar_jobs() {
    let now = i64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs(),
    )
    .unwrap();
    let prometheus = store("starting", history(now), now - 5 * 86_400 + 20_000);
    let admin = cluster().kubectl(Persona::Admin);
    admin
        .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "starting"}}));
    cluster().add_nodes(&[in_pool(
        node("starting-0", Some(A100), &[(GPU, 8)]),
        "starting",
    )]);
    let train = |name: &str, gpus: u64| {
        format!(
            "kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: busybox, command: [sleep, '1']}}\nresources: {{pool: starting, gpu: {gpus}}}\n"
        )
    };
    let gpuctl_in_namespace = |arguments: &[&str], input: &str| {
        let mut command = gpuctl(cluster(), Persona::Admin);
        command
            .args(["--prometheus", &prometheus, "-n", "starting"])
            .args(arguments);
        run(command, input)
    };
    gpuctl_in_namespace(
        &["create", "-f", "-", "--wait", "--timeout", "60s"],
        &train("holder", 8),
    )
    .ok();
    // The percentiles are the values 2, 10 and 18 of nineteen.
    let fit = gpuctl_in_namespace(&["fit", "-f", "-", "-o", "json"], &train("next", 8))
        .exits(8)
        .json();
    assert_eq!(
        fit["items"][0]["start"],
        json!({"p10Seconds": 2000.0, "p50Seconds": 10_000.0, "p90Seconds": 18_000.0, "similarStarts": 19, "days": 7, "latestSeconds": null}),
        "{fit:#}"
    );
    let text = gpuctl_in_namespace(&["fit", "-f", "-"], &train("next", 8))
        .exits(8)
        .out;
    assert!(
        text.contains("start: P50 2h, P90 5h, from 19 similar starts within 7 days"),
        "{text}"
    );
    gpuctl_in_namespace(
        &["create", "-f", "-", "--allow-pending"],
        &(train("next", 8) + "---\n" + &train("little", 1)),
    )
    .ok();
    let why = |name: &str| -> Value {
        ask(
            &prometheus,
            &PathBuf::from("/nonexistent"),
            &["-n", "starting", "why", name, "-o", "json"],
        )
        .ok()
        .json()
    };
    let next = why("next");
    let median = next["start"]["p50Seconds"]
        .as_f64()
        .unwrap_or_else(|| panic!("{next:#}"));
    assert!(
        (9_800.0..=10_000.0).contains(&median),
        "the time already waited is subtracted: {median}"
    );
    assert_eq!(
        why("little")["start"],
        json!({"p10Seconds": null, "p50Seconds": null, "p90Seconds": null, "similarStarts": 5, "days": 7, "latestSeconds": null})
    );
    let text = gpuctl_in_namespace(&["why", "little"], "").ok().out;
    assert!(
        text.contains("start: unknown, because only 5 similar starts within 7 days"),
        "{text}"
    );
    assert_eq!(why("holder")["start"], Value::Null);
    assert_eq!(
        crate::runner::run(
            {
                let mut command = gpuctl(cluster(), Persona::Admin);
                command.args(["-n", "starting", "why", "next", "-o", "json"]);
                command
            },
            ""
        )
        .ok()
        .json()["start"],
        Value::Null,
        "no estimate without Prometheus"
    );
}

#[test]
fn deadlines_of_running_jobs_bound_the_wait() {
    let admin = cluster().kubectl(Persona::Admin);
    admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bounded"}}));
    cluster().add_nodes(&[in_pool(
        node("bounded-0", Some(A100), &[(GPU, 8)]),
        "bounded",
    )]);
    let train = |name: &str, gpus: u64, more: &str| {
        format!(
            "kind: training\nversion: v0.1\njob: {{name: {name}{more}}}\nenvironment: {{image: busybox, command: [sleep, '1']}}\nresources: {{pool: bounded, gpu: {gpus}}}\n"
        )
    };
    let gpuctl_in_namespace = |arguments: &[&str], input: &str| {
        let mut command = gpuctl(cluster(), Persona::Admin);
        command
            .args(["--prometheus", "none", "-n", "bounded"])
            .args(arguments);
        run(command, input)
    };
    // Four GPUs are held for at most one hour, two for at most two hours, and two for an unknown
    // time, because the job can be retried.
    for (name, gpus, more) in [
        ("hour", 4, ", max_runtime: 1h, retries: 0"),
        ("two", 2, ", max_runtime: 2h, retries: 0"),
        ("tries", 2, ", max_runtime: 1h, retries: 1"),
    ] {
        gpuctl_in_namespace(
            &["create", "-f", "-", "--wait", "--timeout", "60s"],
            &train(name, gpus, more),
        )
        .ok();
    }
    let latest = |gpus: u64| {
        let fit = gpuctl_in_namespace(&["fit", "-f", "-", "-o", "json"], &train("next", gpus, ""))
            .exits(8)
            .json();
        fit["items"][0]["start"]["latestSeconds"].as_f64()
    };
    let within = |seconds: Option<f64>, limit: f64| {
        seconds.is_some_and(|seconds| (limit - 120.0..=limit).contains(&seconds))
    };
    assert!(within(latest(4), 3600.0), "{:?}", latest(4));
    assert!(within(latest(6), 7200.0), "{:?}", latest(6));
    assert_eq!(latest(8), None, "one of the running jobs has no deadline");
    gpuctl_in_namespace(
        &["create", "-f", "-", "--allow-pending"],
        &train("next", 4, ""),
    )
    .ok();
    let text = gpuctl_in_namespace(&["why", "next"], "").ok().out;
    assert!(
        text.contains("start: within 59m at the latest, based on the deadlines of running jobs"),
        "{text}"
    );
    // Another job that waits for the same node can be scheduled first.
    assert_eq!(latest(4), None);
}
